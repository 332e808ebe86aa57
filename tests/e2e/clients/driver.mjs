// driver.mjs < scenarios: makes the calls of each scenario with the JavaScript client and prints their outcomes, as JSON.
import { readFileSync } from "node:fs";
import { Freshet, FreshetError, sign, token } from "../../../scripts/clients/javascript/freshet.mjs";

let pauses = [];
const setTimeout = globalThis.setTimeout;
globalThis.setTimeout = (callback, ms, ...rest) => {
  if (new Error().stack.includes("/freshet.mjs")) pauses.push(ms / 1000);  // fetch has timers, too
  return setTimeout(callback, ms, ...rest);
};

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

function clientFor(base, options) {
  const named = Object.fromEntries(Object.entries(options).map(([name, value]) => [camel(name), value]));
  if (named.key) named.key = { kid: named.key[0], secret: named.key[1] };
  return new Freshet({ base, ...named });
}

// Calls whose arguments differ from those in the other languages.
const kCalls = {
  sign: (_, [kid, secret, ...rest]) => sign({ kid, secret }, ...rest),
  token: (_, [kid, secret, ...rest]) => token({ kid, secret }, ...rest),
  track: (client, [articleId], report) => client.track({ articleId, ...report }),
  view: (client, [articleId, fingerprint], report) => client.view({ articleId, fingerprint, ...report }),
  look: (client, args) => client.look(...args),
  dismiss: (client, args, { reason }) => client.dismiss(...args, reason),
  feed: async (client, [userId, action, page], more) => {
    const feed = client.feed(userId, { page, ...more });
    return action === "load_more" ? feed.more() : feed.refresh();
  },
  timeline: (client, [channel, userId, direction = "first", score], more) => {
    const timeline = client.timeline(channel, userId, { ...more, cursors: { drop: score, up: score } });
    return { first: () => timeline.first(), down: () => timeline.newer(), up: () => timeline.older() }[direction]();
  },
};

function described({ status, code, member = null, message, retryAfterMs = 0, temporary }) {
  return { status, code, member, message, retry_after_s: retryAfterMs / 1000, temporary };
}

async function outcome(client, { call, args, more }) {
  pauses = [];
  const began = performance.now();
  const took = () => ({ pauses, seconds: (performance.now() - began) / 1000 });
  try {
    const result = await (kCalls[call] ? kCalls[call](client, args, more) : client[camel(call)](...args, more));
    if (result?.error) result.error = described(result.error);
    return { result, ...took() };
  } catch (error) {
    return error instanceof FreshetError ? { error: described(error), ...took() } : { crash: String(error) };
  }
}

const outcomes = [];
for (const { base, options, calls } of JSON.parse(readFileSync(0, "utf8"))) {
  const client = clientFor(base, options);
  outcomes.push([]);
  for (const each of calls) outcomes.at(-1).push(await outcome(client, each));
}
console.log(JSON.stringify(outcomes));
