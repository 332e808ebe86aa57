// Types of express.mjs.
import type { Freshet, Id, ItemMembers, Key } from "./freshet.mjs";

type Items<Name extends "hot" | "recommendations" | "similar"> = Promise<Awaited<ReturnType<Freshet[Name]>>["items"]>;

/** `request.freshet` after the middleware. */
export interface Lists {
  hot(query?: Parameters<Freshet["hot"]>[0]): Items<"hot">;
  recommended(query?: Parameters<Freshet["recommendations"]>[1]): Items<"recommendations">;
  similar(itemId: Id, query?: Parameters<Freshet["similar"]>[1]): Items<"similar">;
}

export function links(items: { id: string; title?: string; url?: string }[]): string;

export function freshetExpress<Request = any>(options: {
  base: string;
  key?: Key;
  tokenKey?: Key;
  reader?: (request: Request) => Id | null | undefined | Promise<Id | null | undefined>;
  log?: (message: string) => void;
}): ((request: Request, response: any, next: (error?: unknown) => void) => void) & {
  saved(itemId: Id, members: ItemMembers): Promise<boolean>;
  removed(itemId: Id): Promise<boolean>;
};
