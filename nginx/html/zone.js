// Which server sent this page, and whether it is a demo whose Redis can be stopped (./scripts/run). The internal server
// answers this address itself (freshet-internal.conf).
export const zone = "public", demo = false;
