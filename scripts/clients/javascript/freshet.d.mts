// Types of freshet.mjs. openapi-typescript generates openapi.d.ts from nginx/html/openapi.json.
import type { components, operations } from "./openapi.js";

type Schemas = components["schemas"];
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
type Request<Name extends keyof operations> = Json<NonNullable<operations[Name]["requestBody"]>>;
type Reply<Name extends keyof operations> = Json<operations[Name]["responses"][keyof operations[Name]["responses"] & (200 | 202)]>;
type Query<Name extends keyof operations> = NonNullable<operations[Name]["parameters"]["query"]>;
export type Id = Schemas["Id"];

export interface Key { kid: string; secret: string }
export interface Store { getItem(key: string): string | null; setItem(key: string, text: string): void }
export interface Options {
  base?: string;
  /** Signs requests to the internal server if identity.internal_keys is set. Never use it in a browser. */
  key?: Key;
  headers?: Record<string, string>;
  attempts?: number;
  timeoutMs?: number;
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

export class Freshet {
  constructor(options?: Options);
  track(report: Request<"track">): Promise<Reply<"track">>;
  flush(): Promise<number>;
  view(report: Request<"view">): Promise<Reply<"view">>;
  look(userId: Id, topicId: Id, kind?: "topic" | "reply"): Promise<Reply<"look">>;
  dismiss(userId: Id, topicId: Id, reason?: string): Promise<Reply<"dismiss">>;
  undismiss(userId: Id, topicId: Id): Promise<Reply<"undismiss">>;
  hot(query?: Query<"hot">): Promise<Reply<"hot">>;
  recommendations(userId: Id, query?: Query<"recommendations">): Promise<Reply<"recommendations">>;
  similar(id: Id, query?: Query<"similar">): Promise<Reply<"similar">>;
  history(userId: Id, query?: Query<"history">): Promise<Reply<"history">>;
  clearHistory(userId: Id, query?: Query<"clearHistory">): Promise<Reply<"clearHistory">>;
  feed(userId: Id, options?: { limit?: number; query?: string; page?: string | null }): Feed;
  timeline(channel: string, userId: Id, options?: { limit?: number; cursors?: Cursors | null }): Timeline;
  follows(userId: Id): Promise<Reply<"follows">>;
  stats(id: Id): Promise<Reply<"articleStats">>;
  getItem(id: Id): Promise<Reply<"getItem">>;
  putItem(id: Id, item: Request<"putItem">): Promise<Reply<"putItem">>;
  deleteItem(id: Id): Promise<Reply<"deleteItem">>;
  putItems(items: object[]): Promise<Reply<"putItems">>;
  interact(events: object[]): Promise<Reply<"interact">>;
  push(channel: string, items: Id[], customers: Id[]): Promise<Reply<"push">>;
  publish(channel: string, items: Id[], author: Id): Promise<Reply<"push">>;
  follow(userId: Id, author: Id): Promise<Reply<"follow">>;
  unfollow(userId: Id, author: Id): Promise<Reply<"unfollow">>;
  request(method: string, path: string, options?: {
    query?: Record<string, unknown>; body?: object | string; type?: string; repeatable?: boolean;
  }): Promise<unknown>;
}

export interface Feed {
  page: string | null;
  refresh(): Promise<FeedPage>;
  more(): Promise<FeedPage>;
  peek(): Promise<number>;
}
type FeedPage = Required<Pick<Schemas["FeedPage"]["data"], "items" | "has_more" | "page" | "exhausted">> & { degraded?: true };

export interface Cursors { drop: number; up: number }
export interface Timeline {
  cursors: Cursors | null;
  first(): Promise<Reply<"timeline">>;
  newer(): Promise<Reply<"timeline">>;
  older(): Promise<Reply<"timeline">>;
}
