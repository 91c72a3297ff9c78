/** Walks the whole contract. ADDRESS, NAMESPACE, API_URL, SCHEMAS and EMULATOR say where. Its last line is a report. */

import { strict as assert } from "node:assert";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, Connection, WorkflowExecutionAlreadyStartedError, WorkflowIdReusePolicy } from "@temporalio/client";

import { Contract, Handle } from "./contract";
import type { SubscriptionRunState, TaskSpec, TaskStatus, TaskView } from "./schemas/droidherd";

const LIMIT_MS = 120_000;
const ME = { actor: "typescript", reason: "walks the contract" };
const given = (name: string): string => {
  const value = process.env[name];
  assert(value, `${name} is missing`);
  return value;
};

async function until<T>(what: string, ask: () => Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + LIMIT_MS;
  for (;;) {
    const found = await ask();
    if (found !== undefined && found !== false) {
      return found;
    }
    if (Date.now() > end) {
      throw new Error(`waited too long for ${what}`);
    }
    await sleep(100);
  }
}

type Task = Handle<"TaskWorkflow">;

function reaches(task: Task, ...states: TaskStatus[]): Promise<TaskView> {
  return until(`${task.id} to be ${states.join("/")}`, async () => {
    const view = await task.query("view");
    return states.includes(view.state) && view;
  });
}

/** A refusal: its message, whatever layer it came from. */
async function refused(work: Promise<unknown>, type: string, ...words: string[]): Promise<void> {
  let said = "";
  try {
    await work;
  } catch (error) {
    for (let one = error as { message?: string; type?: string; cause?: unknown } | undefined; one; ) {
      said += ` ${one.type ?? ""} ${one.message ?? ""}`;
      one = one.cause as typeof one;
    }
  }
  for (const word of [type, ...words]) {
    assert(said.includes(word), `expected ${word} in: ${said || "no refusal"}`);
  }
  assert(!/pydantic|Input should|validation error/.test(said), said);
}

class Walk {
  constructor(
    readonly contract: Contract,
    readonly api: string,
    readonly emulator: string,
  ) {}

  readonly pool = () => this.contract.handle("DispatcherWorkflow", "dispatcher/default");
  readonly submit = (id: string, spec: TaskSpec): Promise<Task> =>
    this.contract.start("TaskWorkflow", id, { spec: { actor: ME.actor, ...spec } });

  async http(method: string, path: string, body?: object): Promise<unknown> {
    const answer = await fetch(this.api + path, {
      method,
      headers: { "content-type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await answer.text();
    assert(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** A task, its end, and why it is used once. */
  async completes(): Promise<void> {
    const spec: TaskSpec = { type: "tap_once", account: "walk-1", labels: { team: "ops" }, priority: 3 };
    const task = await this.submit("walk-1", spec);
    const admission = await task.update("admission", undefined);
    assert.equal(admission.task_id, "walk-1");
    const view = await task.result();
    assert.deepEqual([view.state, view.labels, view.events[0]?.actor], ["completed", { team: "ops" }, ME.actor]);
    const memo = await task.memo<TaskView>("task");
    assert.equal(memo.state, "completed");
    this.contract.check({ $ref: "TaskView.json" }, { ...view, ...memo }, "memo task");
    await assert.rejects(this.submit("walk-1", spec), WorkflowExecutionAlreadyStartedError);
    const again = await this.contract.start("TaskWorkflow", "walk-1", { spec }, WorkflowIdReusePolicy.ALLOW_DUPLICATE);
    assert.equal((await again.failure()).type, "already_run");
    const query = "TaskState = 'completed' AND AccountId = 'walk-1' AND TaskType = 'tap_once' AND Tags = 'team=ops'";
    await until("walk-1 to be listed", async () => {
      for await (const one of this.contract.client.workflow.list({ query })) {
        return one.workflowId === "walk-1";
      }
      return false;
    });
  }

  /** Signals and updates while it runs; then another run of it, and the end by force. */
  async pauses(): Promise<void> {
    const spec: TaskSpec = { type: "linger", account: "walk-2", params: { x: 50, lasts: "50s" } };
    const task = await this.submit("walk-2", spec);
    await reaches(task, "running");
    await refused(task.update("control", { action: "resume", ...ME }), "IllegalTransitionError", "resume is not possible");
    await task.signal("pause", ME);
    const paused = await reaches(task, "paused");
    assert.equal(paused.why, "paused by typescript: walks the contract");
    await task.update("control", { action: "resume", ...ME });
    await reaches(task, "running");
    await task.update("control", { action: "pause", ...ME });
    await reaches(task, "paused");
    await task.signal("resume", ME);
    await reaches(task, "running");
    await task.signal("cancel", ME);
    assert((await task.failure()).cancelled);
    const past = await task.query("view");
    const last = past.events.at(-1);
    assert.deepEqual([past.state, last?.actor, last?.reason], ["cancelled", ME.actor, ME.reason]);

    const other = { spec: { ...spec, params: { x: 51, lasts: "50s" } }, again: { past, ...ME } };
    const refusal = await this.contract.start("TaskWorkflow", task.id, other, WorkflowIdReusePolicy.ALLOW_DUPLICATE);
    const failed = await refusal.failure();
    assert.deepEqual([failed.type, /params.x is another/.test(failed.message)], ["BadParametersError", true]);
    const same = { spec, again: { past, ...ME } };
    const retried = await this.contract.start("TaskWorkflow", task.id, same, WorkflowIdReusePolicy.ALLOW_DUPLICATE);
    const again = await reaches(retried, "running");
    assert.deepEqual([again.attempt, again.events[0]?.event], [past.attempt + 1, "created"]);
    await retried.signal("force_cancel", ME);
    assert((await retried.failure()).cancelled);
  }

  /** A person's answer, as an update and as a signal. */
  async asks(): Promise<void> {
    const first = await this.submit("walk-3", { type: "asks_freely", account: "walk-3" });
    const second = await this.submit("walk-4", { type: "asks_freely", account: "walk-4" });
    const asked = await reaches(first, "waiting");
    assert.deepEqual([asked.question?.text, asked.question?.choices], ["which one?", ["left", "right"]]);
    await refused(first.update("control", { action: "answer", choice: "up", ...ME }), "IllegalTransitionError", "left, right");
    await first.update("control", { action: "answer", choice: "left", ...ME });
    await reaches(second, "waiting");
    await second.signal("answer", { choice: "right", ...ME });
    for (const task of [first, second]) {
      const view = await task.result();
      assert(view.events.some((one) => one.actor === ME.actor && /left|right/.test(one.reason)));
    }
  }

  /** What a task changed is taken back: after it ended, and while it runs. */
  async takesBack(): Promise<void> {
    const spec: TaskSpec = { type: "change_config", params: { setting: "global/window_animation_scale", value: "0.5" } };
    const task = await this.submit("walk-5", spec);
    const past = await task.result();
    assert.equal(past.undo.length, 1);
    const again = { past, action: "rollback", force: false, ...ME } as const;
    const back = await this.contract.start("TaskWorkflow", task.id, { spec, again }, WorkflowIdReusePolicy.ALLOW_DUPLICATE);
    assert.equal((await back.result()).state, "rollback_completed");
    const busy = await this.submit("walk-6", { type: "linger", account: "walk-6", params: { x: 50, lasts: "50s" } });
    await reaches(busy, "running");
    await busy.signal("rollback", { force: false, ...ME });
    assert.equal((await busy.result()).state, "rollback_completed");
  }

  /** Lanes, priorities, accounts and the audit of the pool. */
  async dispatches(): Promise<void> {
    const pool = this.pool();
    const order = (request_id: string) => ({ lane: "slow", request_id, ...ME });
    assert((await pool.update("pause_lane", order("1"))).done);
    assert.equal((await pool.update("pause_lane", order("1"))).detail, "done before");
    assert((await pool.update("set_capacity", { ...order("2"), capacity: 1 })).done);
    assert((await pool.update("set_order", { ...order("3"), order: "priority", ageing: 5 })).done);
    const waits = await this.submit("walk-7", { type: "tap_once", account: "walk-7", lane: "slow" });
    await waits.update("admission", undefined);
    assert.match((await pool.query("place", "walk-7")).why, /lane slow is paused by typescript/);
    assert.deepEqual(Object.keys((await pool.query("places", { tasks: ["walk-7", "nobody"] })).places), ["walk-7"]);
    const page = await pool.query("queue", { lane: "slow" });
    assert.deepEqual(page.queue.map((one) => one.task_id), ["walk-7"]);
    assert(Date.parse(page.queue[0]!.enqueued_at) <= Date.now() + 60_000);
    assert((await pool.update("prioritize", { task_id: "walk-7", priority: 1, request_id: "4", ...ME })).done);
    assert((await pool.query("account", "walk-7")).is_queued);
    assert((await pool.update("disable_account", { account: "walk-7", request_id: "5", ...ME })).done);
    const disabled = (await pool.query("disabled")).accounts[0];
    assert.deepEqual([disabled?.account, disabled?.disabled?.by], ["walk-7", ME.actor]);
    assert.equal((await pool.query("accounts", { accounts: ["walk-7", "walk-8"] })).accounts.length, 2);
    assert((await pool.update("enable_account", { account: "walk-7", request_id: "6", ...ME })).done);
    assert((await pool.update("resume_lane", order("7"))).done);
    assert.equal((await waits.result()).state, "completed");
    assert((await pool.update("reset_lane", order("8"))).done);
    assert((await pool.query("emulators")).emulators.some((one) => one.emulator_id === this.emulator));
    assert((await pool.query("events")).cursor > 0);
    assert((await pool.query("stats")).types.some((one) => one.type === "tap_once" && one.completed > 0));
    await pool.signal("configure", { limit: 9_000 });
    await pool.signal("wake", undefined);
    await pool.signal("audit_entry", { kind: "note", actor: ME.actor, reason: "from elsewhere", once: "9" });
    await until("the settings and the note", async () => {
      const kinds = (await pool.query("audit", { actor: ME.actor })).events.map((one) => one.kind);
      return (await pool.query("queue")).limit === 9_000 && kinds.includes("note");
    });
  }

  /** The record of an account. */
  async keepsAccounts(): Promise<void> {
    const id = "account/walk-9";
    const record = { note: "mine", credentials: { password: "env:WALK_PASSWORD" }, pool: "default", ...ME };
    const made = await this.contract.updateWithStart("AccountWorkflow", id, {}, "set", record);
    assert.deepEqual([made.account, made.note, made.changed_by, made.reason], ["walk-9", "mine", ME.actor, ME.reason]);
    const account = this.contract.handle("AccountWorkflow", id);
    assert.deepEqual(await account.query("view"), made);
    assert.equal((await account.memo<typeof made>("account")).note, "mine");
    const secret = { credentials: { password: "hunter2" }, ...ME };
    await refused(account.update("set", secret), "BadMessageError", "credentials", "env:NAME");
    await account.update("remove", ME);
    assert.equal((await account.result()).reason, ME.reason);
  }

  /** An emulator leaves the pool and comes back. */
  async drains(): Promise<void> {
    const emulator = this.contract.handle("EmulatorWorkflow", `emulator/${this.emulator}`);
    const shows = (state: string) =>
      until(`${this.emulator} to be ${state}`, async () => (await emulator.query("view")).state === state);
    await emulator.signal("drain", ME);
    await shows("draining");
    await emulator.signal("undrain", ME);
    await shows("up");
    assert((await emulator.update("control", { action: "drain", request_id: "d", ...ME })).done);
    await shows("draining");
    assert((await emulator.update("control", { action: "undrain", request_id: "u", ...ME })).done);
    await shows("up");
  }

  /** A cleanup that only says what would go. */
  async cleansUp(): Promise<void> {
    const id = "maintenance/cleanup/walk";
    const cleanup = await this.contract.start("MaintenanceWorkflow", id, { dry_run: true, pool: "default", ...ME });
    const report = await cleanup.result();
    assert.deepEqual([report.actor, report.dry_run], [ME.actor, true]);
    assert.equal((await cleanup.query("view")).started_at, report.started_at);
  }

  /** A subscription, made over HTTP, seen and run through its Schedule. */
  async recurs(): Promise<void> {
    const task = { type: "linger", account: "walk-10", params: { x: 50, lasts: "5s" } };
    await this.http("POST", "/api/subscriptions", { id: "walk", task, cron: "0 0 1 1 *", ...ME });
    const schedule = this.contract.client.schedule.getHandle("subscription/walk");
    const action = (await schedule.describe()).action;
    assert.equal(action.type, "startWorkflow");
    this.contract.check({ $ref: "Subscription.json" }, action.args?.[0], "argument of the schedule");
    const ended: string[] = [];
    for (const stop of [false, true]) {
      await schedule.trigger();
      const run = await this.nextRun(ended);
      const state = await until("the run to start its task", async () => {
        const now = await run.query("state");
        return now.task_id ? now : undefined;
      });
      if (stop) {
        await run.signal("cancel", ME);
      }
      const result = await run.result();
      assert.deepEqual([result.task_id, result.outcome], [state.task_id, stop ? "cancelled" : "completed"]);
      const memo = await run.memo<SubscriptionRunState>("subscription_run");
      this.contract.check({ $ref: "SubscriptionRunState.json" }, memo, "memo subscription_run");
      ended.push(run.id);
    }
    await this.http("DELETE", "/api/subscriptions/walk", ME);
  }

  private nextRun(ended: string[]): Promise<Handle<"SubscriptionRunWorkflow">> {
    const query = "WorkflowType = 'SubscriptionRunWorkflow' AND SubscriptionId = 'walk'";
    return until("a run of the subscription", async () => {
      for await (const one of this.contract.client.workflow.list({ query })) {
        if (!ended.includes(one.workflowId)) {
          return this.contract.handle("SubscriptionRunWorkflow", one.workflowId);
        }
      }
      return undefined;
    });
  }

  /** What is misspelt or missing is refused with the field and what is allowed. */
  async refuses(): Promise<void> {
    const pool = this.pool().temporal;
    const refuse = (name: string, argument: object, ...words: string[]) =>
      refused(pool.executeUpdate(name, { args: [argument] }), "BadMessageError", name, ...words);
    await refuse("pause_lane", { lane: "slow", requestId: "x" }, "requestId is not known here", "request_id");
    await refuse("set_capacity", { lane: "slow", capacity: -1 }, "capacity is -1; it must be at least 0");
    await refuse("set_order", { lane: "slow", order: "random" }, "order is 'random'; it must be one of: arrival, priority");
    await refuse("prioritize", { task_id: "x", priority: "high" }, "priority is 'high'; it must be a whole number");
    await refused(pool.query("queue", { limit: 0 }), "queue", "limit is 0; it must be at least 1");
    await refused(pool.query("place"), "place", "it takes one argument, a text");
    const misspelt = { spec: { type: "tap_once", notBefore: "2026-11-20T08:00:00Z" } };
    const start = { workflowId: "walk-11", taskQueue: "droidherd", args: [misspelt] };
    const task = await this.contract.client.workflow.start("TaskWorkflow", start);
    await refused(task.result(), "BadParametersError", "spec.notBefore is not known here; did you mean not_before?");
  }
}

async function main(): Promise<void> {
  const connection = await Connection.connect({ address: given("ADDRESS") });
  const client = new Client({ connection, namespace: given("NAMESPACE") });
  const contract = new Contract(client, given("SCHEMAS"));
  const walk = new Walk(contract, given("API_URL"), given("EMULATOR"));
  const began = Date.now();
  const steps = [
    walk.completes, walk.pauses, walk.asks, walk.takesBack, walk.dispatches,
    walk.keepsAccounts, walk.drains, walk.cleansUp, walk.recurs, walk.refuses,
  ];
  for (const step of steps) {
    console.error(`${step.name} at ${((Date.now() - began) / 1000).toFixed(1)} s`);
    await step.call(walk);
  }
  await connection.close();
  console.log(JSON.stringify({ called: [...contract.called].sort(), checked: contract.checked }));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
