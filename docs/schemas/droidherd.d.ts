// Written by docs/schemas/generate.py

/** Workflow type → what starts it, what it ends with, and its messages. */
export interface Workflows {
  TaskWorkflow: {
    input: TaskInput;
    result: TaskView;
    signals: {
      pause: OperatorRequest;
      resume: OperatorRequest;
      cancel: OperatorRequest;
      force_cancel: OperatorRequest;
      rollback: RollbackRequest;
      answer: Answer;
    };
    updates: {
      control: { argument: Control; answer: TaskView };
      admission: { argument: undefined; answer: Admission };
    };
    queries: {
      view: { argument: undefined; answer: TaskView };
    };
  };
  DispatcherWorkflow: {
    input: DispatcherInput;
    result: undefined;
    signals: {
      wake: undefined;
      configure: QueueSettings;
      audit_entry: AuditEntry;
    };
    updates: {
      pause_lane: { argument: OperatorCommand; answer: CommandResult };
      resume_lane: { argument: OperatorCommand; answer: CommandResult };
      set_capacity: { argument: OperatorCommand; answer: CommandResult };
      set_order: { argument: OperatorCommand; answer: CommandResult };
      reset_lane: { argument: OperatorCommand; answer: CommandResult };
      prioritize: { argument: OperatorCommand; answer: CommandResult };
      disable_account: { argument: OperatorCommand; answer: CommandResult };
      enable_account: { argument: OperatorCommand; answer: CommandResult };
    };
    queries: {
      queue: { argument: QueueQuery; answer: QueuePage };
      emulators: { argument: undefined; answer: EmulatorsPage };
      account: { argument: string; answer: AccountView };
      accounts: { argument: AccountsQuery; answer: AccountsPage };
      disabled: { argument: DisabledQuery; answer: DisabledPage };
      events: { argument: number; answer: EventsPage };
      place: { argument: string; answer: QueuePosition };
      places: { argument: PositionsQuery; answer: QueuePositions };
      stats: { argument: undefined; answer: StatsPage };
      audit: { argument: AuditQuery; answer: AuditPage };
    };
  };
  EmulatorWorkflow: {
    input: EmulatorInput;
    result: undefined;
    signals: {
      drain: DrainRequest;
      undrain: DrainRequest;
    };
    updates: {
      control: { argument: EmulatorControl; answer: CommandResult };
    };
    queries: {
      view: { argument: undefined; answer: EmulatorView };
    };
  };
  AccountWorkflow: {
    input: AccountInput;
    result: AccountRecord;
    signals: {
    };
    updates: {
      set: { argument: SetAccount; answer: AccountRecord };
      remove: { argument: AccountActionRequest; answer: AccountRecord };
    };
    queries: {
      view: { argument: undefined; answer: AccountRecord };
    };
  };
  MaintenanceWorkflow: {
    input: CleanupInput;
    result: CleanupReport;
    signals: {
    };
    updates: {
    };
    queries: {
      view: { argument: undefined; answer: CleanupReport };
    };
  };
  SubscriptionRunWorkflow: {
    input: Subscription;
    result: SubscriptionRunState;
    signals: {
      cancel: OperatorRequest;
    };
    updates: {
    };
    queries: {
      state: { argument: undefined; answer: SubscriptionRunState };
    };
  };
}

export interface AccountActionRequest {
  actor?: string;
  reason?: string;
  pool?: string;
}

export interface AccountInput {
}

export interface AccountRecord {
  account: string;
  emulator: string;
  credentials: Record<string, string>;
  note: string;
  changed_at: string | null;
  changed_by: string;
  reason: string;
}

export interface AccountView {
  account: string;
  is_queued: boolean;
  is_running: boolean;
  emulator: string;
  running_task: string;
  queued_tasks: Array<string>;
  queued_types: Array<string>;
  disabled: Disabled | null;
}

export interface AccountsPage {
  pool: string;
  accounts: Array<AccountView>;
  rebuilding: boolean;
}

export interface AccountsQuery {
  accounts?: Array<string>;
}

export interface Admission {
  task_id: string;
  state: TaskStatus;
  position: number;
  reason: string;
  holder: string;
}

export interface Answer {
  actor?: string;
  reason?: string;
  choice: string;
  question?: number;
}

export interface ArtifactView {
  name: string;
  size: number;
  content_type: string;
}

export interface ArtifactViewSent {
  name: string;
  size?: number;
  content_type?: string;
}

export interface AttemptView {
  n: number;
  run: string;
  flow_hash: string;
  emulator: string;
  host: string;
  worker: string;
  token: number;
  started: string | null;
  ended: string | null;
  outcome: string;
  error: Failure | null;
  artifacts: Array<ArtifactView>;
}

export interface AttemptViewSent {
  n: number;
  run?: string;
  flow_hash?: string;
  emulator?: string;
  host?: string;
  worker?: string;
  token?: number;
  started?: string | null;
  ended?: string | null;
  outcome?: string;
  error?: FailureSent | null;
  artifacts?: Array<ArtifactViewSent>;
}

export interface AuditEntry {
  kind: string;
  actor: string;
  reason?: string;
  lane?: string;
  task_id?: string;
  emulator_id?: string;
  detail?: string;
  once?: string;
}

export interface AuditLine {
  at: string;
  what: string;
  actor?: string;
  reason?: string;
  id?: string;
  due?: string | null;
  why?: string;
}

export interface AuditPage {
  pool: string;
  events: Array<PoolEvent>;
  next_before: number | null;
  rebuilding: boolean;
}

export interface AuditQuery {
  before?: number;
  limit?: number;
  actor?: string;
  action?: string;
  task_id?: string;
}

export type Backoff = "fixed" | "exponential";

export interface CatchUp {
  until: string;
  missed: number;
  skipped: number;
  rows: Array<Missed>;
}

export interface CatchUpSent {
  until: string;
  missed?: number;
  skipped?: number;
  rows?: Array<MissedSent>;
}

export interface Chain {
  head: string;
  place: number;
  previous: string;
}

export interface ChainLink {
  type: string;
  params?: Record<string, JsonValue>;
  policy?: PolicyChange | null;
  on_failure?: "keep" | "rollback";
  critical?: boolean;
}

export interface ChainSent {
  head: string;
  place: number;
  previous?: string;
}

export interface CleanupInput {
  actor?: string;
  reason?: string;
  dry_run?: boolean;
  pool?: string;
}

export interface CleanupReport {
  actor: string;
  reason: string;
  dry_run: boolean;
  started_at: string;
  ended_at: string | null;
  stats: CleanupStats;
}

export interface CleanupStats {
  tasks: Record<string, number>;
  orphans: number;
  shed: number;
  bytes: number;
  removed: Array<Removal>;
  more: number;
  troubles: Array<string>;
}

export interface CommandResult {
  done: boolean;
  detail: string;
}

export interface Control {
  actor?: string;
  reason?: string;
  action: "pause" | "resume" | "cancel" | "rollback" | "answer";
  force?: boolean;
  choice?: string;
  question?: number;
}

export interface Disabled {
  by: string;
  reason: string;
  since: string | null;
}

export interface DisabledPage {
  pool: string;
  accounts: Array<AccountView>;
  rebuilding: boolean;
  next_after: string;
}

export interface DisabledQuery {
  after?: string;
  limit?: number;
}

export interface DispatcherInput {
  pool: string;
}

export interface DrainRequest {
  actor?: string;
  reason?: string;
}

export interface DurationStats {
  count: number;
  mean_s: number | null;
  p50_s: number | null;
  p95_s: number | null;
  sum_s: number;
  buckets: Array<number>;
}

export type Effect = "account" | "emulator";

export interface EmulatorControl {
  action: "restart" | "recover" | "quarantine" | "release" | "drain" | "undrain";
  actor?: string;
  reason?: string;
  request_id?: string;
}

export interface EmulatorInput {
  emulator_id: string;
}

export interface EmulatorView {
  emulator_id: string;
  host: string;
  pool: string;
  state: string;
  task: string;
  on_deck: string;
  labels: Record<string, string>;
  address: string;
  serialno: string;
  boot: string;
  idle_since: string | null;
  evidence: string;
  controller: string;
  doing: string;
  last_good_probe: string | null;
}

export interface EmulatorsPage {
  emulators: Array<EmulatorView>;
  rebuilding: boolean;
}

export interface EventView {
  at: string;
  before: string;
  event: string;
  after: string;
  actor: string;
  reason: string;
}

export interface EventViewSent {
  at: string;
  before: string;
  event: string;
  after: string;
  actor: string;
  reason?: string;
}

export interface EventsPage {
  cursor: number;
  events: Array<PoolEvent>;
}

export interface Failure {
  kind: string;
  verdict: string;
  message: string;
  remedy: string;
  retry_after_s: number;
}

export interface FailureSent {
  kind: string;
  verdict: string;
  message: string;
  remedy?: string;
  retry_after_s?: number;
}

export type Intent = "" | "pause" | "cancel" | "force";

export type JsonValue = unknown;

export interface LaneView {
  name: string;
  waiting: number;
  running: number;
  capacity: number;
  paused_by: string;
  paused_why: string;
  order: "arrival" | "priority";
  ageing: number;
  capacity_by: string;
  order_by: string;
}

export interface Missed {
  first: string;
  last: string;
  count: number;
  why: string;
  times: Array<string>;
  at_least: boolean;
}

export interface MissedSent {
  first: string;
  last: string;
  count: number;
  why: string;
  times?: Array<string>;
  at_least?: boolean;
}

export type OnBusy = "reject" | "queue";

export type OnStuck = "report" | "cancel";

export interface OperatorCommand {
  request_id?: string;
  actor?: string;
  reason?: string;
  lane?: string;
  capacity?: number;
  task_id?: string;
  account?: string;
  priority?: number;
  order?: "arrival" | "priority";
  ageing?: number;
  bulk?: boolean;
}

export interface OperatorRequest {
  actor?: string;
  reason?: string;
}

export type Origin = "person" | "schedule" | "maintenance";

export type Overlap = "skip" | "buffer_one" | "buffer_all" | "cancel_other";

export interface PolicyChange {
  time_limit_s?: number | null;
  retries?: number | null;
  retry_on?: RetryOn | null;
  backoff?: Backoff | null;
  backoff_s?: number | null;
}

export interface PoolEvent {
  cursor: number;
  at: string;
  kind: string;
  task_id: string;
  emulator_id: string;
  detail: string;
  actor: string;
  reason: string;
  lane: string;
}

export interface PositionsQuery {
  tasks?: Array<string>;
}

export interface Question {
  number: number;
  text: string;
  step: string;
  mark: string;
  choices: Array<string>;
  within_s: number;
  keep: boolean;
  frame: string;
  until: string | null;
}

export interface QuestionSent {
  number?: number;
  text: string;
  step: string;
  mark?: string;
  choices: Array<string>;
  within_s?: number;
  keep?: boolean;
  frame?: string;
  until?: string | null;
}

export interface QueuePage {
  pool: string;
  waiting: number;
  limit: number;
  running: number;
  free: number;
  rebuilding: boolean;
  paused_by: string;
  paused_why: string;
  lanes: Array<LaneView>;
  emulators: number;
  queue: Array<QueueRow>;
  runs: Array<RunningRow>;
  statistics: Array<TypeSummary>;
  next_after: number | null;
}

export interface QueuePosition {
  position: number;
  why: string;
  priority: number;
  prioritized: number;
}

export interface QueuePositions {
  places: Record<string, QueuePosition>;
}

export interface QueueQuery {
  after?: number;
  limit?: number;
  lane?: string;
}

export interface QueueRow {
  task_id: string;
  position: number;
  lane: string;
  account: string;
  type: string;
  priority: number;
  enqueued_at: string;
  waited_s: number;
  blocked_by: string;
}

export interface QueueSettings {
  limit?: number;
  capacities?: Record<string, number>;
  by_priority?: Array<string>;
  ageing?: number;
  mutex_hold_s?: number;
  idle_stop_s?: number;
  idle_keep?: number;
}

export interface Removal {
  task_id: string;
  why: RemovalReason;
  state: string;
  age_s: number;
  bytes: number;
}

export type RemovalReason = "age" | "orphan" | "size";

export interface Rerun {
  actor?: string;
  reason?: string;
  force?: boolean;
  past: TaskViewSent;
  closes?: boolean;
  action?: "retry" | "rollback";
}

export type RetryOn = "any" | "timeout";

export interface RollbackRequest {
  actor?: string;
  reason?: string;
  force?: boolean;
}

export interface RunningRow {
  task_id: string;
  account: string;
  type: string;
  lane: string;
  emulator: string;
  host: string;
  token: number;
  since: string;
  running_s: number;
  place: string;
}

export interface SetAccount {
  actor?: string;
  reason?: string;
  pool?: string;
  emulator?: string;
  credentials?: Record<string, string>;
  note?: string;
}

export interface StageView {
  name: string;
  state: "waiting" | "running" | "completed" | "failed";
  emulator: string;
  effect: Effect;
  wrote_under: number;
}

export interface StageViewSent {
  name: string;
  state?: "waiting" | "running" | "completed" | "failed";
  emulator?: string;
  effect?: Effect;
  wrote_under?: number;
}

export interface StatsPage {
  pool: string;
  since: string | null;
  total: TypeStats;
  types: Array<TypeStats>;
  bounds_s: Array<number>;
  rebuilding: boolean;
}

export interface Subscription {
  cron?: string;
  every_s?: number;
  offset_s?: number;
  time_zone?: string;
  jitter_s?: number;
  overlap?: Overlap;
  catch_up_s?: number;
  stuck_after_s?: number;
  on_stuck?: OnStuck;
  id: string;
  task: TaskSpec;
  region?: string;
  created_at: string;
  paused_at?: string | null;
  paused_by?: string;
  catch_up: CatchUpSent;
  changes?: Array<AuditLine>;
  request?: string;
}

export interface SubscriptionRunState {
  task_id: string;
  scheduled_at: string;
  started_at: string;
  ended_at: string | null;
  outcome: string;
  catch_up: CatchUp;
  stuck: WaitingTask | null;
  was_stuck: boolean;
  stuck_tasks: number;
}

export interface TaskInput {
  spec: TaskSpec;
  again?: Rerun | null;
}

export interface TaskSpec {
  type: string;
  account?: string;
  params?: Record<string, JsonValue>;
  pool?: string;
  lane?: string;
  priority?: number;
  origin?: Origin;
  on_busy?: OnBusy;
  emulator?: string;
  requires?: Array<string>;
  mutex?: Array<string>;
  labels?: Record<string, string>;
  not_before?: string | null;
  expires_at?: string | null;
  actor?: string;
  policy?: PolicyChange | null;
  on_failure?: "keep" | "rollback";
  critical?: boolean;
  then?: Array<ChainLink>;
  chain?: ChainSent | null;
}

export type TaskStatus = "pending" | "queued" | "running" | "retry_pending" | "waiting" | "paused" | "completed" | "failed" | "cancelled" | "rejected" | "rollback_pending" | "rollback_running" | "rollback_completed" | "rollback_failed";

export interface TaskView {
  task_id: string;
  run_id: string;
  type: string;
  account: string;
  pool: string;
  lane: string;
  priority: number;
  prioritized: number;
  labels: Record<string, string>;
  params: Record<string, JsonValue>;
  state: TaskStatus;
  intent: Intent;
  attempt: number;
  attempts: Array<AttemptView>;
  stages: Array<StageView>;
  emulator: string;
  position: number;
  why: string;
  question: Question | null;
  questions: number;
  error: Failure | null;
  created_at: string;
  updated_at: string;
  ended_at: string | null;
  not_before: string | null;
  retry_at: string | null;
  expires_at: string | null;
  flow: string;
  flow_hash: string;
  rounds: number;
  undo: Array<Undo>;
  chain: Chain | null;
  following: string;
  chain_ends: string;
  events: Array<EventView>;
}

export interface TaskViewSent {
  task_id: string;
  run_id?: string;
  type: string;
  account?: string;
  pool?: string;
  lane?: string;
  priority?: number;
  prioritized?: number;
  labels?: Record<string, string>;
  params?: Record<string, JsonValue>;
  state: TaskStatus;
  intent?: Intent;
  attempt?: number;
  attempts?: Array<AttemptViewSent>;
  stages?: Array<StageViewSent>;
  emulator?: string;
  position?: number;
  why?: string;
  question?: QuestionSent | null;
  questions?: number;
  error?: FailureSent | null;
  created_at: string;
  updated_at: string;
  ended_at?: string | null;
  not_before?: string | null;
  retry_at?: string | null;
  expires_at?: string | null;
  flow?: string;
  flow_hash?: string;
  rounds?: number;
  undo?: Array<UndoSent>;
  chain?: ChainSent | null;
  following?: string;
  chain_ends?: string;
  events?: Array<EventViewSent>;
}

export type Thing = "setting" | "wm" | "property" | "package" | "file";

export interface TypeStats {
  type: string;
  count: number;
  completed: number;
  failed: number;
  retries: number;
  cancelled: number;
  success_rate: number | null;
  run: DurationStats;
  wait: DurationStats;
}

export interface TypeSummary {
  type: string;
  count: number;
  completed: number;
  mean_s: number;
  waited_mean_s: number;
}

export interface Undo {
  stage_index: number;
  stage: string;
  emulator: string;
  lease: number;
  flow_hash: string;
  before: Array<Value>;
  after: Array<Value>;
  unsaid: boolean;
  steps: Array<JsonValue>;
  undone: boolean;
}

export interface UndoSent {
  stage_index: number;
  stage: string;
  emulator: string;
  lease?: number;
  flow_hash?: string;
  before?: Array<ValueSent>;
  after?: Array<ValueSent>;
  unsaid?: boolean;
  steps?: Array<JsonValue>;
  undone?: boolean;
}

export interface Value {
  step: string;
  thing: Thing;
  name: string;
  there: boolean;
  value: string;
  kept: string;
}

export interface ValueSent {
  step: string;
  thing: Thing;
  name: string;
  there?: boolean;
  value?: string;
  kept?: string;
}

export interface WaitingTask {
  task_id: string;
  state: TaskStatus;
  since: string | null;
  why: string;
}
