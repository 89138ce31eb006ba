// Joins microphone, session, player and transcript. Speaks the plain OpenAI Realtime dialect.
import { Microphone } from "./microphone.js";
import { Player } from "./player.js";
import { Session, fromBase64 } from "./session.js";
import { Transcript } from "./transcript.js";

const RATE = 24000;
const MAX_BACKLOG_BYTES = 256 * 1024;
const KEY_NAME = "duplex-api-key";
const MICROPHONE_TROUBLE = {
  NotAllowedError: "The microphone was not allowed.",
  NotFoundError: "No microphone was found. Connect one and press Talk again.",
  NotReadableError: "The microphone cannot be used; perhaps another program has it.",
};

const element = (id) => document.getElementById(id);
const transcript = new Transcript(element("transcript"));
let talk = null;

/** A conversation from the press of the button to its end. */
class Talk {
  #context = new AudioContext({ sampleRate: RATE });
  #player = new Player(this.#context);
  #microphone = null;
  #session;
  #inputBegan = null; // when the server's clock of the input stood at 0
  #silenceMs = 0;
  #responding = false;
  #endOfTurn = null;
  #over = false;

  async start(key) {
    show("connecting", "connecting");
    await this.#context.resume();
    this.#player.onIdle = () => this.#rest();
    this.#session = new Session(key);
    this.#session.addEventListener("event", ({ detail }) => this.#handle(detail));
    this.#session.addEventListener("closed", ({ detail }) => this.#closed(detail));
    this.#microphone = await Microphone.open(this.#context, (pcm, level) => {
      element("level").value = Math.min(1, level * 4);
      this.#append(pcm);
    });
    if (this.#over) this.#microphone.close();
  }

  #append(pcm) {
    const milliseconds = (pcm.byteLength / 2 / RATE) * 1000;
    this.#inputBegan ??= performance.now() - milliseconds;
    // A stalled network must not turn into minutes of old speech.
    if (this.#session.open && this.#session.backlog < MAX_BACKLOG_BYTES) this.#session.append(pcm);
    else this.#inputBegan += milliseconds;
  }

  say(text) {
    this.#interrupt();
    if (this.#responding) this.#session.send({ type: "response.cancel" });
    this.#endOfTurn = performance.now();
    this.#session.say(text);
  }

  set muted(muted) {
    if (this.#microphone) this.#microphone.muted = muted;
  }

  get over() {
    return this.#over;
  }

  end() {
    if (this.#over) return;
    this.#over = true;
    this.#player.stop();
    this.#microphone?.close();
    this.#session?.close();
    this.#context.close();
  }

  #handle(event) {
    const handler = HANDLERS[event.type];
    if (handler) handler.call(this, event);
  }

  // What is played and not wanted any more stops here; the server is told how much was heard.
  #interrupt() {
    const stopped = this.#player.stop();
    if (stopped === null) return;
    this.#session.send({
      type: "conversation.item.truncate",
      item_id: stopped.itemId,
      content_index: 0,
      audio_end_ms: stopped.heardMs,
    });
    this.#session.send({ type: "conversation.item.retrieve", item_id: stopped.itemId });
  }

  #rest() {
    if (!this.#over) show("listening", "listening");
  }

  #closed({ code, reason }) {
    const wanted = this.#over;
    this.end();
    finish();
    if (wanted || code === 1000) return;
    if (code === 1006) void explainRefusal();
    else trouble(`The server ended the session: ${reason || `code ${code}`}.`);
  }

  static handlers = {
    "session.created"({ session }) {
      element("model").textContent = session.model ?? "";
      this.#silenceMs = session.audio?.input?.turn_detection?.silence_duration_ms ?? 0;
      this.#rest();
    },
    "input_audio_buffer.speech_started"({ item_id }) {
      this.#interrupt();
      transcript.open(item_id, "user");
      show("hearing", "hearing you");
    },
    "input_audio_buffer.speech_stopped"({ audio_end_ms }) {
      // The server's figure includes the silence by which it knew.
      this.#endOfTurn = this.#inputBegan + audio_end_ms - this.#silenceMs;
      show("thinking", "thinking");
    },
    "conversation.item.added"({ item }) {
      if (item.type !== "message") return;
      transcript.open(item.id, item.role);
      const written = item.content.find((part) => part.type === "input_text");
      if (written) transcript.set(item.id, written.text);
    },
    "conversation.item.input_audio_transcription.delta"({ item_id, delta }) {
      transcript.append(item_id, "user", delta);
    },
    "conversation.item.input_audio_transcription.completed"({ item_id, transcript: words }) {
      transcript.open(item_id, "user");
      transcript.set(item_id, words);
    },
    "response.output_audio_transcript.delta"({ item_id, delta }) {
      transcript.append(item_id, "assistant", delta);
    },
    "response.output_text.delta"({ item_id, delta }) {
      transcript.append(item_id, "assistant", delta);
    },
    "response.output_audio.delta"({ item_id, delta, sample_rate_hz: rate }) {
      if (this.#endOfTurn !== null) {
        const waited = Math.round(performance.now() - this.#endOfTurn);
        element("latency").textContent = `answered in ${waited} ms`;
        this.#endOfTurn = null;
      }
      show("speaking", "answering");
      this.#player.play(item_id, fromBase64(delta), rate ?? RATE);
    },
    "response.created"() {
      this.#responding = true;
    },
    "response.done"({ response }) {
      this.#responding = false;
      const item = response.output[0];
      if (item) transcript.drop(item.id);
      if (!this.#player.playing) this.#rest();
    },
    "conversation.item.retrieved"({ item }) {
      const heard = item.content?.find((part) => part.type === "output_audio");
      if (heard) transcript.cut(item.id, heard.transcript ?? "");
    },
    error({ error }) {
      trouble(error.message);
    },
  };
}

const HANDLERS = Talk.handlers;

function show(state, words) {
  element("state").dataset.state = state;
  element("state").textContent = words;
  element("hint").hidden = !transcript.empty;
}

function trouble(words) {
  element("trouble").textContent = words;
  element("trouble").hidden = !words;
}

function talking(on) {
  element("talk").textContent = on ? "End" : "Talk";
  for (const control of [element("mute"), element("text"), element("text-form").lastElementChild]) {
    control.disabled = !on;
  }
}

async function begin() {
  trouble("");
  transcript.clear();
  element("latency").textContent = "";
  talking(true);
  talk = new Talk();
  const starting = talk;
  try {
    await starting.start(sessionStorage.getItem(KEY_NAME) ?? "");
  } catch (error) {
    // What ended it has been told already; a microphone that came too late is no news.
    if (starting.over) return;
    starting.end();
    finish();
    trouble(MICROPHONE_TROUBLE[error.name] ?? error.message);
  }
}

function finish() {
  talk = null;
  talking(false);
  element("level").value = 0;
  element("mute").setAttribute("aria-pressed", "false");
  show("idle", "not connected");
}

// A refused upgrade tells a browser nothing, so the same door is tried by HTTP.
async function explainRefusal() {
  const answer = await askServer();
  if (answer === null) trouble("The server cannot be reached.");
  else if (answer.status !== 401) trouble("The server takes no session now; try again in a moment.");
}

async function askServer() {
  const key = sessionStorage.getItem(KEY_NAME);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const answer = await fetch("/v1/models", { headers }).catch(() => null);
  const keyNeeded = answer?.status === 401;
  element("key-form").hidden = !keyNeeded;
  element("talk").disabled = keyNeeded;
  if (keyNeeded && key) trouble("The server does not know this key.");
  if (answer?.ok) element("model").textContent = (await answer.json()).data[0]?.id ?? "";
  return answer;
}

element("talk").addEventListener("click", () => {
  if (talk === null) void begin();
  else talk.end();
});

element("mute").addEventListener("click", ({ currentTarget: button }) => {
  const muted = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(muted));
  if (talk) talk.muted = muted;
});

element("text-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = element("text").value.trim();
  if (text && talk) talk.say(text);
  element("text").value = "";
});

element("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  trouble("");
  sessionStorage.setItem(KEY_NAME, element("key").value);
  element("key").value = "";
  void askServer();
});

void askServer();
