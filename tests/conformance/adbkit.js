// Drives one emulator through adbkit and prints what it saw as one line of JSON.
// Arguments: port of the adb server, serial, a port on the host that answers in capitals, a free port.
'use strict';

const { PassThrough } = require('node:stream');
const { Adb } = require('@devicefarmer/adbkit');

const [serverPort, serial, echoPort, innerPort] = process.argv.slice(2);
const client = Adb.createClient({ host: '127.0.0.1', port: Number(serverPort) });
const device = client.getDevice(serial);

const read = async (stream) => (await Adb.util.readAll(stream)).toString();

const transferred = (transfer) =>
  new Promise((resolve, reject) => transfer.on('end', resolve).on('error', reject));

const spokenTo = (stream) =>
  new Promise((resolve, reject) => {
    stream.on('error', reject);
    stream.once('data', (data) => { resolve(data.toString()); stream.end(); });
    stream.write('hello');
  });

async function main() {
  const seen = {};
  seen.listed = (await client.listDevices()).some((each) => each.id === serial && each.type === 'device');
  seen.shell = await read(await device.shell('echo a; echo "$(getprop ro.serialno)"'));
  seen.missing = await read(await device.shell('screencap -x 2>/dev/null >/dev/null; no_such 2>/dev/null; echo rc $?'));
  seen.properties = (await device.getProperties())['ro.build.version.sdk'];
  seen.features = Object.keys(await device.getFeatures()).length > 0;
  seen.packages = await device.getPackages();
  seen.state = await device.getState();
  seen.path = (await device.getDevicePath()).length > 0;
  await device.waitBootComplete();
  seen.started = await device.startActivity({ component: 'com.example.herd/.MainActivity' });
  seen.focus = await read(await device.shell('dumpsys window windows | grep -c com.example.herd'));
  const picture = await Adb.util.readAll(await device.screencap());
  seen.png = picture.subarray(1, 4).toString();
  const frame = await device.framebuffer('raw');
  seen.frame = [frame.meta.width, frame.meta.height, frame.meta.format];
  frame.destroy();
  const content = new PassThrough();
  content.end(Buffer.alloc(200000, 'z'));
  await transferred(await device.push(content, '/sdcard/from-adbkit'));
  seen.stat = (await device.stat('/sdcard/from-adbkit')).size;
  seen.pulled = (await Adb.util.readAll(await device.pull('/sdcard/from-adbkit'))).length;
  seen.names = (await device.readdir('/sdcard')).map((each) => each.name).filter((name) => name === 'from-adbkit');
  seen.tcp = await spokenTo(await device.openTcp(Number(echoPort)));
  await device.reverse(`tcp:${innerPort}`, `tcp:${echoPort}`);
  seen.reverses = (await device.listReverses()).map((each) => each.remote);
  const log = await device.openLogcat({ clear: false }).catch((problem) => problem.message);
  if (log && log.end) log.end();
  seen.log = typeof log !== 'string';
  await device.clear('com.example.herd');
  seen.installed = await device.isInstalled('com.example.herd');
  seen.absent = await device.isInstalled('com.example.absent');
  console.log(JSON.stringify(seen));
}

main().then(() => process.exit(0), (problem) => { console.error(problem); process.exit(1); });
