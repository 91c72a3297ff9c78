/** A typed client whose every payload, sent or answered, is checked against docs/schemas. */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import {
  ApplicationFailure,
  Client,
  WithStartWorkflowOperation,
  WorkflowFailedError,
  WorkflowIdReusePolicy,
} from "@temporalio/client";
import { Ajv2020 } from "ajv/dist/2020";
import addFormats from "ajv-formats";

import type { Workflows } from "./schemas/droidherd";

type Reference = { $ref?: string; type?: string } | null;
interface Index {
  task_queue: string;
  workflows: Record<
    string,
    {
      input: Reference;
      result: Reference;
      signals: Record<string, { argument: Reference }>;
      updates: Record<string, { argument: Reference; answer: Reference }>;
      queries: Record<string, { argument: Reference; answer: Reference }>;
    }
  >;
  memo: Record<string, Reference>;
}

export type Name = keyof Workflows;
type Signals<W extends Name> = Workflows[W]["signals"];
type Updates<W extends Name> = Workflows[W]["updates"];
type Queries<W extends Name> = Workflows[W]["queries"];
type Argument<T, N extends keyof T> = T[N] extends { argument: infer A } ? A : never;
type Answer<T, N extends keyof T> = T[N] extends { answer: infer A } ? A : never;

const FLEET_QUEUE = "droidherd-fleet";

export class Contract {
  readonly index: Index;
  readonly checked: Record<string, number> = {};
  readonly called = new Set<string>();
  private readonly ajv: Ajv2020;

  constructor(
    readonly client: Client,
    schemas: string,
  ) {
    const read = (name: string) => JSON.parse(readFileSync(join(schemas, name), "utf8"));
    this.index = read("index.json");
    this.ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true });
    addFormats(this.ajv);
    for (const name of readdirSync(schemas)) {
      if (name.endsWith(".json") && name !== "index.json") {
        this.ajv.addSchema({ ...read(name), $id: name });
      }
    }
  }

  /** Fails when a value is not what the contract says. */
  check(reference: Reference, value: unknown, where: string): void {
    if (reference === null) {
      if (value !== undefined && value !== null) {
        throw new Error(`${where}: nothing was expected, not ${JSON.stringify(value)}`);
      }
      return;
    }
    const valid = this.ajv.validate(reference, value);
    if (!valid) {
      throw new Error(`${where}: ${this.ajv.errorsText()}: ${JSON.stringify(value)}`);
    }
    const name = reference.$ref ?? reference.type ?? "?";
    this.checked[name] = (this.checked[name] ?? 0) + 1;
  }

  private spoken(workflow: Name) {
    const spoken = this.index.workflows[workflow];
    if (spoken === undefined) {
      throw new Error(`${workflow} is not in the index`);
    }
    return spoken;
  }

  async start<W extends Name>(
    workflow: W,
    workflowId: string,
    input: Workflows[W]["input"],
    reuse: WorkflowIdReusePolicy = WorkflowIdReusePolicy.REJECT_DUPLICATE,
  ): Promise<Handle<W>> {
    this.check(this.spoken(workflow).input, input, `${workflow} input`);
    this.called.add(`${workflow} start`);
    const started = await this.client.workflow.start(workflow, {
      workflowId,
      taskQueue: workflow === "TaskWorkflow" ? this.index.task_queue : FLEET_QUEUE,
      args: [input],
      workflowIdReusePolicy: reuse,
      workflowTaskTimeout: "2s",
      staticSummary: `${workflow} of a foreign client`,
    });
    return new Handle(this, workflow, workflowId, started.firstExecutionRunId);
  }

  /** An update of a workflow that is started for it, unless it runs. */
  async updateWithStart<W extends Name, N extends keyof Updates<W> & string>(
    workflow: W,
    workflowId: string,
    input: Workflows[W]["input"],
    name: N,
    argument: Argument<Updates<W>, N>,
  ): Promise<Answer<Updates<W>, N>> {
    const spoken = this.spoken(workflow);
    this.check(spoken.input, input, `${workflow} input`);
    this.check(spoken.updates[name]!.argument, argument, `${workflow}.${name} argument`);
    this.called.add(`${workflow} start`).add(`${workflow} update ${name}`);
    const startWorkflowOperation = new WithStartWorkflowOperation(workflow, {
      workflowId,
      taskQueue: FLEET_QUEUE,
      args: [input],
      workflowIdConflictPolicy: "USE_EXISTING",
    });
    const answer = (await this.client.workflow.executeUpdateWithStart(name, {
      startWorkflowOperation,
      args: [argument],
    })) as Answer<Updates<W>, N>;
    this.check(spoken.updates[name]!.answer, answer, `${workflow}.${name} answer`);
    return answer;
  }

  handle<W extends Name>(workflow: W, workflowId: string): Handle<W> {
    return new Handle(this, workflow, workflowId);
  }
}

export class Handle<W extends Name> {
  constructor(
    readonly contract: Contract,
    readonly workflow: W,
    readonly id: string,
    readonly runId?: string,
  ) {}

  /** The newest run. */
  get temporal() {
    return this.contract.client.workflow.getHandle(this.id);
  }

  private get spoken() {
    return this.contract.index.workflows[this.workflow]!;
  }

  async signal<N extends keyof Signals<W> & string>(name: N, argument: Signals<W>[N]): Promise<void> {
    this.contract.check(this.spoken.signals[name]!.argument, argument, `${this.workflow}.${name} argument`);
    this.contract.called.add(`${this.workflow} signal ${name}`);
    await this.temporal.signal(name, ...(argument === undefined ? [] : [argument]));
  }

  async update<N extends keyof Updates<W> & string>(
    name: N,
    argument: Argument<Updates<W>, N>,
  ): Promise<Answer<Updates<W>, N>> {
    const spoken = this.spoken.updates[name]!;
    this.contract.check(spoken.argument, argument, `${this.workflow}.${name} argument`);
    this.contract.called.add(`${this.workflow} update ${name}`);
    const args: [unknown] | [] = argument === undefined ? [] : [argument];
    const answer = (await this.temporal.executeUpdate(name, { args } as { args: [unknown] })) as Answer<Updates<W>, N>;
    this.contract.check(spoken.answer, answer, `${this.workflow}.${name} answer`);
    return answer;
  }

  async query<N extends keyof Queries<W> & string>(
    name: N,
    argument?: Argument<Queries<W>, N>,
  ): Promise<Answer<Queries<W>, N>> {
    const spoken = this.spoken.queries[name]!;
    if (argument !== undefined) {
      this.contract.check(spoken.argument, argument, `${this.workflow}.${name} argument`);
    }
    this.contract.called.add(`${this.workflow} query ${name}`);
    const args = argument === undefined ? [] : [argument];
    const answer = await this.temporal.query<Answer<Queries<W>, N>, unknown[]>(name, ...args);
    this.contract.check(spoken.answer, answer, `${this.workflow}.${name} answer`);
    return answer;
  }

  /** What the workflow ends with, whether that is its result or stands in the details of its failure. */
  async result(): Promise<Workflows[W]["result"]> {
    const value = await this.temporal.result();
    this.contract.check(this.spoken.result, value, `${this.workflow} result`);
    return value as Workflows[W]["result"];
  }

  /** The failure it ends with; its details hold what a result would. */
  async failure(): Promise<{ type: string; message: string; cancelled: boolean; view?: Workflows[W]["result"] }> {
    try {
      await this.temporal.result();
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) {
        throw error;
      }
      if (error.cause instanceof ApplicationFailure) {
        const view = error.cause.details?.[0];
        this.contract.check(this.spoken.result, view, `${this.workflow} failure details`);
        const type = error.cause.type ?? "";
        return { type, message: error.cause.message, cancelled: false, view: view as Workflows[W]["result"] };
      }
      return { type: error.cause?.name ?? "", message: error.message, cancelled: true };
    }
    throw new Error(`${this.id} did not fail`);
  }

  /** A memo of it. Only what differs from the defaults stands there. */
  async memo<T>(name: string): Promise<Partial<T>> {
    const described = await this.temporal.describe();
    return (described.memo?.[name] ?? {}) as Partial<T>;
  }
}
