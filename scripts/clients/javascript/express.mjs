// Freshet in an Express app. Nothing here fails when Freshet is unavailable: lists are empty, and saved() and removed() are false.
//
//   const freshet = freshetExpress({ base: "http://127.0.0.1:8081", key, tokenKey, reader: (request) => request.session?.userId });
//   app.use(freshet);  // after the session
//   app.get("/", async (request, response) => response.send(`<ol>${links(await request.freshet.hot({ limit: 5 }))}</ol>`));
//   await freshet.saved("42", { title: "A post", url: "/posts/42", published_at: "2026-11-20T08:00:00Z" });
//
// `base` is the internal server, and `key` one of identity.internal_keys. `tokenKey`, one of identity.token_keys, makes the cookie
// that names the reader when pages call Freshet. Behind a proxy that ends TLS, the app needs `trust proxy`.
import { Freshet, token } from "./freshet.mjs";

const kHalfDay = 43200;  // seconds

const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// The items as <li>, with links to their `url`.
export const links = (items) => items.map(({ id, title, url }) => {
  const text = escape(title || id);
  return `<li>${/^(https?:\/)?\//i.test(url) ? `<a href="${escape(url)}">${text}</a>` : text}</li>`;
}).join("");

export function freshetExpress({ base, key, tokenKey, reader = () => null, log = console.error }) {
  if (!base) throw new TypeError("base is missing, the address of the internal server");
  const page = new Freshet({ base, key, preset: "page" });
  const background = new Freshet({ base, key });

  // Sets the cookie of a reader who is signed in, and removes that of one who has signed out.
  async function setToken(request, response, readerId) {
    const name = request.secure ? "__Host-freshet_token" : "freshet_token";
    const cookie = (request.headers.cookie ?? "").split("; ").find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1);
    // The same token for half a day, and valid for at least as long.
    const expires = (Math.floor(Date.now() / 1e3 / kHalfDay) + 2) * kHalfDay;
    const wanted = readerId ? await token(tokenKey, readerId, expires) : undefined;
    const options = { path: "/", secure: request.secure, httpOnly: true, sameSite: "lax", encode: String };
    if (wanted && wanted !== cookie) response.cookie(name, wanted, { ...options, maxAge: 2e3 * kHalfDay }).set("Cache-Control", "private, no-store");
    if (!wanted && cookie) response.clearCookie(name, options);
  }

  async function identify(request, response) {
    const readerId = await reader(request);
    if (tokenKey) await setToken(request, response, readerId);
    request.freshet = {
      hot: async (query) => (await page.hot(query)).items,
      recommended: async (query) => (await page.recommendations(readerId || null, query)).items,
      similar: async (itemId, query) => (await page.similar(itemId, query)).items,
    };
  }

  const succeeds = (change) => change.then(() => true, (error) => {
    log(`freshet: ${error.message}`);
    return false;
  });
  return Object.assign((request, response, next) => void identify(request, response).then(() => next(), next), {
    saved: (itemId, members) => succeeds(background.putItem(itemId, members)),
    removed: (itemId) => succeeds(background.deleteItem(itemId)),
  });
}
