// Written by docs/schemas/generate.py

export interface AccountActionRequest {
  actor?: string;
  reason?: string;
  pool?: string;
}

export interface AccountInput {
  state?: AccountStateSent | null;
  continue_after?: number;
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

export interface AccountRecordSent {
  account: string;
  emulator?: string;
  credentials?: Record<string, string>;
  note?: string;
  changed_at?: string | null;
  changed_by?: string;
  reason?: string;
}

export interface AccountStateSent {
  record: AccountRecordSent;
  removed?: boolean;
  outbox?: Record<string, Array<AuditEntry>>;
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

export interface AnnounceSent {
  emulator_id: string;
  host_id: string;
  incarnation: number;
  seq: number;
  state: EmulatorStatusSent;
  labels?: Array<string>;
  boot?: string;
  reset_up_to?: number;
  action?: string;
  actor?: string;
  reason?: string;
  startable?: boolean;
  switched?: number;
  why?: string;
}

export interface Answer {
  choice: string;
  ask?: OperatorRequest;
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

export interface AuditPage {
  pool: string;
  events: Array<Event>;
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

export type BackoffSent = "fixed" | "exponential";

export interface Chain {
  head: string;
  place: number;
  previous: string;
}

export interface ChainLinkSent {
  type: string;
  params?: Record<string, JsonValueSent>;
  policy?: PolicyChangeSent | null;
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
  action: "pause" | "resume" | "cancel" | "rollback" | "answer";
  ask?: OperatorRequest;
  force?: boolean;
  choice?: string;
}

export interface Disabled {
  by: string;
  reason: string;
  since_ms: number;
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
  snapshot?: string;
  settings?: PoolSettingsSent;
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
  seconds: number;
  buckets: Array<number>;
}

export interface EmulatorControl {
  action: "restart" | "recover" | "quarantine" | "release" | "drain" | "undrain";
  actor?: string;
  reason?: string;
  request_id?: string;
}

export interface EmulatorInput {
  emulator_id: string;
  timing?: FleetTimingSent;
  state?: EmulatorStateSent | null;
}

export interface EmulatorStateSent {
  emulator_id: string;
  dispatcher?: string;
  owner?: string;
  status?: EmulatorStatusSent;
  health?: HealthSent;
  incarnation?: number;
  host_incarnation?: number;
  seq?: number;
  boot?: string;
  gated_boot?: string;
  address?: string;
  serialno?: string;
  labels?: Array<string>;
  reset_wanted?: number;
  reset_done?: number;
  tries?: number;
  draining?: boolean;
  good_at_ms?: number;
  drained_by?: string;
  evidence?: string;
  announced?: Array<unknown> | null;
  request?: Array<unknown>;
  reports?: Record<string, SeenSent>;
  recovery?: RecoveryPolicySent | null;
  steps?: RecoveryStepsSent;
  due?: PlannedStepSent | null;
  sent?: boolean;
  quarantined_by?: string;
  given_up?: boolean;
  unneeded?: boolean;
  stopped?: boolean;
  switch_seq?: number;
  switch_done?: number;
  outbox?: Record<string, Array<AnnounceSent>>;
}

export type EmulatorStatusSent = "registering" | "up" | "suspect" | "down" | "recovering" | "quarantined" | "draining" | "retired" | "stopped";

export type EmulatorTroubleSent = "silent" | "unfit" | "";

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

export interface Event {
  cursor: number;
  at_ms: number;
  kind: string;
  task_id: string;
  emulator_id: string;
  detail: string;
  actor: string;
  reason: string;
  lane: string;
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
  events: Array<Event>;
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

export interface FleetTimingSent {
  presence_timeout_s?: number;
  presence_grace_s?: number;
  gate_timeout_s?: number;
  gate_backoff_s?: number;
}

export type HealthSent = "good" | "suspect" | "down" | "leaving" | "left";

export type Intent = "" | "pause" | "cancel" | "force";

export type IntentSent = "" | "pause" | "cancel" | "force";

export type JsonValue = unknown;

export type JsonValueSent = unknown;

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

export type OnBusySent = "reject" | "queue";

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

export type OriginSent = "person" | "schedule" | "maintenance";

export interface PlannedStepSent {
  number: number;
  step: RecoveryStepSent;
  trouble?: EmulatorTroubleSent;
  after_s?: number;
}

export interface PolicyChangeSent {
  time_limit_s?: number | null;
  retries?: number | null;
  retry_on?: RetryOnSent | null;
  backoff?: BackoffSent | null;
  backoff_s?: number | null;
}

export interface PoolSettingsSent {
  limit?: number;
  capacities?: Record<string, number>;
  by_priority?: Array<string>;
  ageing?: number;
  mutex_hold_s?: number;
  idle_stop_s?: number;
  idle_keep?: number;
  repeat_min_s?: number;
  rebuild_s?: number;
  fence_s?: number;
  continue_after?: number;
}

export interface PositionsQuery {
  tasks?: Array<string>;
}

export interface Question {
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
  enqueued_at_ms: number;
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

export interface RecoveryPolicySent {
  controller?: string;
  reconnect_s?: number;
  restarts?: number;
  backoff_s?: number;
  backoff_max_s?: number;
  forgive_s?: number;
  limit_s?: number;
  on_demand?: boolean;
}

export type RecoveryStepSent = "reconnect" | "restart_app" | "restart" | "start" | "stop" | "evidence";

export interface RecoveryStepsSent {
  tried?: Array<RecoveryStepSent>;
  restarts?: number;
  number?: number;
  well_ms?: number;
}

export interface Removal {
  task_id: string;
  why: RemovalReason;
  state: string;
  age_s: number;
  bytes: number;
}

export type RemovalReason = "age" | "orphan" | "size";

export interface RerunSent {
  past: TaskViewSent;
  ask: OperatorRequest;
  rollback?: RollbackSent | null;
  closes?: boolean;
}

export type RetryOnSent = "any" | "timeout";

export interface RollbackRequest {
  actor?: string;
  reason?: string;
  force?: boolean;
}

export interface RollbackSent {
  force?: boolean;
  ask?: OperatorRequest;
  begun?: boolean;
  skipped?: Array<string>;
}

export interface RunningRow {
  task_id: string;
  account: string;
  type: string;
  lane: string;
  emulator: string;
  host: string;
  token: number;
  since_ms: number;
  running_s: number;
  place: string;
}

export interface SeenSent {
  emulator_id: string;
  host_id: string;
  incarnation: number;
  seq: number;
  health: HealthSent;
  boot?: string;
  address?: string;
  serialno?: string;
  labels?: Array<string>;
  pool?: string;
  recovery?: RecoveryPolicySent | null;
  good_at_ms?: number;
}

export interface SetAccount {
  emulator?: string;
  credentials?: Record<string, string>;
  note?: string;
  request?: AccountActionRequest;
}

export interface StageView {
  name: string;
  state: "waiting" | "running" | "completed";
  emulator: string;
}

export interface StageViewSent {
  name: string;
  state?: "waiting" | "running" | "completed";
  emulator?: string;
}

export interface StatsPage {
  pool: string;
  since_ms: number;
  total: TypeStats;
  types: Array<TypeStats>;
  bounds_s: Array<number>;
  rebuilding: boolean;
}

export interface TaskInput {
  spec: TaskSpecSent;
  again?: RerunSent | null;
}

export interface TaskSpecSent {
  type: string;
  account?: string;
  params?: Record<string, JsonValueSent>;
  pool?: string;
  lane?: string;
  priority?: number;
  origin?: OriginSent;
  on_busy?: OnBusySent;
  emulator?: string;
  requires?: Array<string>;
  mutex?: Array<string>;
  labels?: Record<string, unknown>;
  not_before?: string | null;
  expires_at?: string | null;
  actor?: string;
  policy?: PolicyChangeSent | null;
  on_failure?: "keep" | "rollback";
  critical?: boolean;
  then?: Array<ChainLinkSent>;
  chain?: ChainSent | null;
}

export type TaskStatus = "pending" | "queued" | "running" | "retry_pending" | "waiting" | "paused" | "completed" | "failed" | "cancelled" | "rejected" | "rollback_pending" | "rollback_running" | "rollback_completed" | "rollback_failed";

export type TaskStatusSent = "pending" | "queued" | "running" | "retry_pending" | "waiting" | "paused" | "completed" | "failed" | "cancelled" | "rejected" | "rollback_pending" | "rollback_running" | "rollback_completed" | "rollback_failed";

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
  params?: Record<string, JsonValueSent>;
  state: TaskStatusSent;
  intent?: IntentSent;
  attempt?: number;
  attempts?: Array<AttemptViewSent>;
  stages?: Array<StageViewSent>;
  emulator?: string;
  position?: number;
  why?: string;
  question?: QuestionSent | null;
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

export type ThingSent = "setting" | "wm" | "property" | "package" | "file";

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
  steps?: Array<JsonValueSent>;
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
  thing: ThingSent;
  name: string;
  there?: boolean;
  value?: string;
  kept?: string;
}
