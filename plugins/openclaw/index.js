/** Fourfold as the memory of OpenClaw: recalls before a turn and stores the exchange after it, over HTTP. */

import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

const RECALLED = 5;
const LEAST_CONFIDENCE = 0.2;
const CHARACTERS = 600;
const SECONDS = 10;
const UNATTENDED = new Set(["cron", "heartbeat"]);

export default definePluginEntry({
  id: "fourfold",
  name: "Fourfold memory",
  description: "Recalls what answers a prompt from a Fourfold server, and stores what was said.",
  kind: "memory",
  register(api) {
    const { url = "http://127.0.0.1:8765", namespace = "default", token } = api.pluginConfig ?? {};
    const base = `${url.replace(/\/+$/, "")}/v1/namespaces/${encodeURIComponent(namespace)}`;

    /** The answer; null, and a line in the log, if the server does not give one: a turn goes on without memory. */
    async function post(path, body) {
      try {
        const answer = await fetch(base + path, {
          method: "POST",
          headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(SECONDS * 1000),
        });
        if (answer.ok) return await answer.json();
        const { detail, remedy } = await answer.json();
        api.logger.warn(`fourfold: ${answer.status}: ${detail}. ${remedy}`);
      } catch (error) {
        api.logger.warn(`fourfold: ${url} does not answer (${error.name}); start it: fourfold serve`);
      }
      return null;
    }

    api.on("before_prompt_build", async (event) => {
      const query = (event.currentUserMessage ?? event.prompt).trim();
      if (!query) return;
      const asked = { query, top_k: RECALLED, min_confidence: LEAST_CONFIDENCE, cut: "auto" };
      const results = (await post("/search", asked))?.results ?? [];
      if (results.length) return { prependContext: `Memories that may help:\n${results.map(shown).join("\n")}` };
    });

    api.on("agent_end", async (event, context) => {
      if (!event.success || UNATTENDED.has(context.trigger)) return;
      const asked = event.messages.findLastIndex((message) => message?.role === "user" && said(message));
      const answers = event.messages.slice(asked + 1).filter((message) => message?.role === "assistant").map(said);
      const answered = answers.filter(Boolean).join("\n\n");
      if (asked < 0 || !answered) return;
      await post("/items", {
        text: `User: ${said(event.messages[asked])}\n\nAssistant: ${answered}`,
        kind: "exchange",
        metadata: context.sessionId ? { session: context.sessionId } : {},
        occurred_at: new Date().toISOString(),
      });
    });
  },
});

function shown(result) {
  const { title, content, occurred_at, created_at } = result;
  return `- ${(occurred_at ?? created_at).slice(0, 10)}: ${title ? `${title}: ` : ""}${content.slice(0, CHARACTERS)}`;
}

/** The text of a message, whose content is a text or a list of parts. */
function said({ content }) {
  const parts = typeof content === "string" ? [content] : (content ?? []).map((part) => part?.text ?? "");
  return parts.join("\n").trim();
}
