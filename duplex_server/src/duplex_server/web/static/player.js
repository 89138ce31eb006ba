/** Plays the deltas of one answer after another without gaps, and knows how much was heard. */
export class Player {
  #context;
  #itemId = null;
  #pieces = []; // { source, starts, seconds } of the current item
  #endsAt = 0;
  onIdle = () => {};

  constructor(context) {
    this.#context = context;
  }

  get playing() {
    return this.#endsAt > this.#context.currentTime;
  }

  /** Queue 16-bit little-endian PCM at `rate` Hz of the item it belongs to. */
  play(itemId, pcm, rate) {
    if (itemId !== this.#itemId) {
      this.#itemId = itemId;
      this.#pieces = this.#pieces.filter((piece) => piece.ends > this.#context.currentTime);
      for (const piece of this.#pieces) piece.earlier = true;
    }
    const samples = new Int16Array(pcm);
    if (samples.length === 0) return;
    const buffer = this.#context.createBuffer(1, samples.length, rate);
    const channel = buffer.getChannelData(0);
    for (let index = 0; index < samples.length; index += 1) channel[index] = samples[index] / 32768;
    const source = new AudioBufferSourceNode(this.#context, { buffer });
    source.connect(this.#context.destination);
    const starts = Math.max(this.#endsAt, this.#context.currentTime + 0.02);
    source.start(starts);
    this.#endsAt = starts + buffer.duration;
    source.onended = () => {
      if (!this.playing) this.onIdle();
    };
    this.#pieces.push({ source, starts, ends: this.#endsAt, earlier: false });
  }

  /**
   * Fall silent at once.
   * @returns {{itemId: string, heardMs: number} | null} what was being played, null if nothing.
   */
  stop() {
    if (!this.playing) return null;
    const now = this.#context.currentTime;
    const heard = this.#pieces
      .filter((piece) => !piece.earlier)
      .reduce((sum, piece) => sum + Math.max(0, Math.min(now, piece.ends) - piece.starts), 0);
    for (const { source } of this.#pieces) {
      source.onended = null;
      source.stop();
    }
    this.#pieces = [];
    this.#endsAt = 0;
    return { itemId: this.#itemId, heardMs: Math.floor(heard * 1000) };
  }
}
