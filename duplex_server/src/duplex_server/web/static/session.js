/** One realtime session over a WebSocket: commands out, events in. */
export class Session extends EventTarget {
  #socket;

  /** @param {string} key API key, or "" when the server needs none. */
  constructor(key) {
    super();
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    // Browsers cannot set headers on a WebSocket; the key travels as a subprotocol entry.
    const protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"];
    this.#socket = new WebSocket(`${scheme}://${location.host}/v1/realtime`, protocols);
    this.#socket.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      this.dispatchEvent(new CustomEvent("event", { detail: event }));
    };
    this.#socket.onclose = ({ code, reason }) => {
      this.dispatchEvent(new CustomEvent("closed", { detail: { code, reason } }));
    };
  }

  get open() {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** How much the socket has not sent yet, in bytes. */
  get backlog() {
    return this.#socket.bufferedAmount;
  }

  send(command) {
    if (this.open) this.#socket.send(JSON.stringify(command));
  }

  append(pcm) {
    this.send({ type: "input_audio_buffer.append", audio: toBase64(pcm) });
  }

  say(text) {
    const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
    this.send({ type: "conversation.item.create", item });
    this.send({ type: "response.create" });
  }

  close() {
    this.#socket.close(1000);
  }
}

export function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes.buffer;
}

function toBase64(buffer) {
  let binary = "";
  for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
  return btoa(binary);
}
