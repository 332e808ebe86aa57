// node concurrent.mjs BASE: four tasks share a client. Prints how many replies were not those to their requests.
import { Freshet } from "../../../scripts/clients/javascript/freshet.mjs";

const client = new Freshet({ base: process.argv[2], attempts: 1, timeoutMs: 60000 });

async function ask(stem) {
  let wrong = 0;
  for (let i = 0; i < 50; i++) {
    const { id } = await client.getItem(`${stem}-${i}`).catch(() => ({}));
    wrong += id !== `${stem}-${i}`;
  }
  return wrong;
}

const wrong = await Promise.all(["a", "b", "c", "d"].map(ask));
console.log(wrong.reduce((sum, each) => sum + each));
