"""`dumpsys`: the parts clients read."""

from collections.abc import Callable

from droidherd.virtual import app
from droidherd.virtual.commands import keyboards
from droidherd.virtual.commands.base import Command, CommandContext
from droidherd.virtual.commands.packages import dump_of
from droidherd.virtual.commands.system import APP_PID


def _window(context: CommandContext) -> str:
    focus = context.emulator.focus
    window = f"Window{{5b1c2d3 u0 {focus}}}" if focus else "null"
    task = f"ActivityRecord{{3f2a1b0 u0 {_short(focus)} t12}}" if focus else "null"
    return (
        "WINDOW MANAGER WINDOWS (dumpsys window windows)\n"
        f"  Window #1 {window}:\n    mDisplayId=0 rootTaskId=1 mSession=Session{{a1b2c3 1520:u0a10040}}\n"
        f"  mCurrentFocus={window}\n  mFocusedApp={task}\n  mInputMethodTarget=null\n"
        "  mDreamingLockscreen=false\n  mAwake=true\n"
    )


def _activity(context: CommandContext) -> str:
    focus = _short(context.emulator.focus)
    record = f"ActivityRecord{{3f2a1b0 u0 {focus} t12}}"
    return (
        "ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\n"
        "Display #0 (activities from top to bottom):\n"
        f"  topResumedActivity={record}\n  ResumedActivity: {record}\n  mResumedActivity: {record}\n"
        f"  mFocusedApp={record}\n"
    )


def _short(focus: str) -> str:
    package, _, activity = focus.partition("/")
    return f"{package}/{activity.removeprefix(package)}"


def _display(context: CommandContext) -> str:
    width, height = context.emulator.size
    turns = int(context.emulator.faults.has("turned"))
    return (
        "DISPLAY MANAGER (dumpsys display)\n  mViewports=[DisplayViewport{type=INTERNAL, valid=true, isActive=true, "
        "displayId=0, uniqueId='local:0', physicalPort=0, "
        f"orientation={turns}, "
        f"logicalFrame=Rect(0, 0 - {width}, {height}), physicalFrame=Rect(0, 0 - {width}, {height}), "
        f"deviceWidth={width}, deviceHeight={height}}}]\n  mScreenState=ON\n"
    )


def _battery(_context: CommandContext) -> str:
    return (
        "Current Battery Service state:\n  AC powered: true\n  USB powered: false\n  status: 2\n  health: 2\n"
        "  present: true\n  level: 100\n  scale: 100\n  voltage: 5000\n  temperature: 250\n  technology: Li-ion\n"
    )


def _meminfo(context: CommandContext) -> str:
    app_line = f"     65,432K: {app.PACKAGE} (pid {APP_PID} / activities)\n" if context.emulator.app.running else ""
    return (
        "Applications Memory Usage (in Kilobytes):\nTotal PSS by process:\n    180,244K: system (pid 612)\n"
        f"{app_line}Total RAM: 2,048,000K (status normal)\n Free RAM: 812,000K\n Used RAM: 1,236,000K\n"
    )


def _power(_context: CommandContext) -> str:
    return "POWER MANAGER (dumpsys power)\n  mWakefulness=Awake\n  Display Power: state=ON\n"


def _input(context: CommandContext) -> str:
    width, height = context.emulator.size
    return (
        "INPUT MANAGER (dumpsys input)\n  Viewport INTERNAL: displayId=0, orientation=0, "
        f"logicalFrame=[0, 0, {width}, {height}]\n      SurfaceOrientation: 0\n"
    )


_PARTS: dict[str, Callable[[CommandContext], str]] = {
    "activity": _activity,
    "battery": _battery,
    "display": _display,
    "input": _input,
    "input_method": keyboards.dump,
    "meminfo": _meminfo,
    "power": _power,
    "window": _window,
}


def _package(context: CommandContext, words: list[str]) -> str:
    packages = context.emulator.packages.all()
    return dump_of(packages, next((word for word in words if word in packages), words[0] if words else ""))


async def _dumpsys(context: CommandContext) -> int:
    words = context.words
    name = words[0] if words else ""
    if name == "-l":
        context.say("Currently running services:\n" + "".join(f"  {part}\n" for part in [*_PARTS, "package"]))
        return 0
    if name == "package" and context.emulator.booted:
        context.say(_package(context, words[1:]))
    elif name in _PARTS:
        context.say(_PARTS[name](context))
    else:
        context.complain(f"Can't find service: {name}\n")
    return 0


COMMANDS: dict[str, Command] = {"dumpsys": _dumpsys}
