// Types of freshet.mjs. openapi-typescript generates openapi.d.ts from nginx/html/openapi.json.
//
// Arguments are named like the members in API.md; undefined, null and "" stand for absent. The preset decides what happens when
// Freshet is slow or down:
//
// - "background" repeats requests that can be repeated up to four times, and throws FreshetError: reads, PUT, DELETE, and
//   events, each of which has its own id.
// - "page" is for code that renders a page. It tries once, for at most 300 ms, and throws no service errors: a call that fails
//   returns {items: [], unavailable: true, error: FreshetError}. If there was no response, calls fail at once for a second, so
//   that a page with many lists waits only once.
//
// With both, a track that cannot be delivered is queued in `storage` and sent after the next one, or when the browser is online
// again.
import type { components, operations } from "./openapi.js";

type Schemas = components["schemas"];
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
type Request<Name extends keyof operations> = Json<NonNullable<operations[Name]["requestBody"]>>;
type Body<Name extends keyof operations> = Json<operations[Name]["responses"][keyof operations[Name]["responses"] & (200 | 202)]>;
type Reply<Name extends keyof operations> = Body<Name> & Unavailable;
/** A JSON array, as an object. */
type List<Name extends keyof operations> = { items: Body<Name>; degraded?: true } & Unavailable;
type Query<Name extends keyof operations, Rest extends string = never> = Omit<NonNullable<operations[Name]["parameters"]["query"]>, Rest>;
export type Id = Schemas["Id"];
export type ItemMembers = Partial<Request<"putItem">> & Pick<Request<"putItem">, "title" | "published_at">;

/** With preset "page", a call that fails returns {items: [], unavailable: true, error}. */
export interface Unavailable { unavailable?: true; error?: FreshetError }

export interface Key { kid: string; secret: string }
export interface Store { getItem(key: string): string | null; setItem(key: string, text: string): void }
export interface Options {
  base?: string;
  /** Signs requests to the internal server if identity.internal_keys is set. Never use it in a browser. */
  key?: Key;
  headers?: Record<string, string>;
  /** "page" tries once, for at most 300 ms, and throws no service errors. Default: "background". */
  preset?: "page" | "background";
  attempts?: number;
  timeoutMs?: number;
  cooldownMs?: number;
  firstPauseMs?: number;
  /** Holds tracks that could not be delivered yet, for example localStorage. Default: memory. */
  storage?: Store;
  fetch?: typeof fetch;
}

export class FreshetError extends Error {
  status: number;
  code: string;
  member?: string;
  retryAfterMs?: number;
  readonly temporary: boolean;
}

export function newEventId(): string;
export function sign(key: Key, method: string, target: string, body: string, seconds?: number): Promise<string>;
export function token(key: Key, userId: Id, expires?: number): Promise<string>;

export class Freshet {
  constructor(options?: Options);
  track(report: Omit<Request<"track">, "dwellMs"> & { dwellMs?: number }): Promise<Reply<"track">>;
  flush(): Promise<number>;
  view(report: Request<"view">): Promise<Reply<"view">>;
  look(userId: Id | null, topicId: Id, kind?: "topic" | "reply"): Promise<Reply<"look">>;
  dismiss(userId: Id | null, topicId: Id, reason?: string): Promise<Reply<"dismiss">>;
  undismiss(userId: Id | null, topicId: Id): Promise<Reply<"undismiss">>;
  visitor(): Promise<Unavailable>;
  hot(query?: Query<"hot">): Promise<List<"hot">>;
  recommendations(userId: Id | null, query?: Query<"recommendations", "userId">): Promise<Reply<"recommendations">>;
  similar(itemId: Id, query?: Query<"similar">): Promise<Reply<"similar">>;
  history(userId: Id | null, query?: Query<"history", "userId">): Promise<Reply<"history">>;
  clearHistory(userId: Id | null, query?: Query<"clearHistory", "userId" | "topicId">): Promise<Reply<"clearHistory">>;
  removeFromHistory(userId: Id | null, topicId: Id, query?: Query<"clearHistory", "userId" | "topicId">): Promise<Reply<"clearHistory">>;
  feed(userId: Id | null, options?: { limit?: number; query?: string; page?: string | null }): Feed;
  timeline(channel: string, userId: Id | null, options?: { limit?: number; cursors?: Cursors | null }): Timeline;
  follows(userId: Id | null): Promise<Reply<"follows">>;
  stats(articleId: Id): Promise<Reply<"articleStats">>;
  statsOf(articleIds: Id[]): Promise<Reply<"stats">>;
  preview(settings: Query<"preview", "compare">): Promise<List<"hot">>;
  getItem(itemId: Id): Promise<Reply<"getItem">>;
  putItem(itemId: Id, members: ItemMembers): Promise<Reply<"putItem">>;
  deleteItem(itemId: Id): Promise<Reply<"deleteItem">>;
  putItems(items: object[]): Promise<Reply<"putItems">>;
  interact(events: object[]): Promise<Reply<"interact">>;
  push(channel: string, items: Id[], customers: Id[]): Promise<Reply<"push">>;
  publish(channel: string, items: Id[], author: Id): Promise<Reply<"push">>;
  removeFromTimeline(channel: string, itemId: Id, userId: Id): Promise<Reply<"removeFromTimeline">>;
  follow(userId: Id, author: Id): Promise<Reply<"follow">>;
  unfollow(userId: Id, author: Id): Promise<Reply<"unfollow">>;
  mergeHistory(visitorId: Id, userId: Id): Promise<Reply<"mergeHistory">>;
  exportUser(userId: Id, start?: number): Promise<Reply<"exportUser">>;
  eraseUser(userId: Id): Promise<Reply<"eraseUser">>;
  job(jobId: string): Promise<Reply<"job">>;
  whoami(): Promise<Reply<"whoami">>;
  health(): Promise<{ ready: boolean; writes: boolean; missing: string[]; error?: FreshetError }>;
  request(method: string, path: string, options?: {
    query?: Record<string, unknown>; body?: object | string; type?: string; repeatable?: boolean; parse?: (text: string) => object | undefined;
  }): Promise<unknown>;
}

export interface Feed {
  page: string | null;
  refresh(): Promise<FeedPage>;
  more(): Promise<FeedPage>;
  peek(): Promise<number>;
}
type FeedPage = Required<Pick<Schemas["FeedPage"]["data"], "items" | "has_more" | "page" | "exhausted">> & { degraded?: true } & Unavailable;

export interface Cursors { drop: number; up: number }
export interface Timeline {
  cursors: Cursors | null;
  first(): Promise<Reply<"timeline">>;
  newer(): Promise<Reply<"timeline">>;
  older(): Promise<Reply<"timeline">>;
}
