/* Requests to the server, and estimates as they arrive. */
async function refusal(response) {
  if (response.headers.get("content-type")?.startsWith("application/json")) return response.json();
  return { problems: { "": await response.text() } };
}

async function send(method, path, body) {
  const response = await fetch(path, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 204) return { ok: true };
  return { ok: response.ok, status: response.status, data: response.ok ? await response.json() : await refusal(response) };
}

export const form = () => send("GET", "/api/form");
export const ledger = () => send("GET", "/api/ledger");
export const runs = () => send("GET", "/api/runs");
export const certify = (inputs, patient) => send("POST", "/api/runs", { inputs, patient });
export const cancel = (id) => send("POST", `/api/runs/${id}/cancel`, {});
export const remove = (id) => send("DELETE", `/api/runs/${id}`);

/** Call `tell` with each message about a plan; the first says whether the inputs are accepted. */
export async function estimate(inputs, patient, signal, tell) {
  const response = await fetch("/api/estimate", {
    method: "POST", signal, headers: { "content-type": "application/json" }, body: JSON.stringify({ inputs, patient }),
  });
  if (!response.ok) {
    tell({ kind: "problem", ...(await refusal(response)) });
    return;
  }
  tell({ kind: "accepted" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) tell(JSON.parse(line));
  }
}
