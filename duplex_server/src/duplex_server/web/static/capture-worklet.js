// Runs on the audio thread: gathers 40 ms of the microphone as 16-bit samples.
const CHUNK_SAMPLES = 960;

class Capture extends AudioWorkletProcessor {
  #chunk = new Int16Array(CHUNK_SAMPLES);
  #filled = 0;
  #energy = 0;

  process([input]) {
    for (const sample of input[0] ?? []) {
      const limited = Math.max(-1, Math.min(1, sample));
      this.#chunk[this.#filled] = Math.round(limited * 32767);
      this.#filled += 1;
      this.#energy += limited * limited;
      if (this.#filled === CHUNK_SAMPLES) this.#flush();
    }
    return true;
  }

  #flush() {
    const level = Math.sqrt(this.#energy / CHUNK_SAMPLES);
    const { buffer } = this.#chunk;
    this.port.postMessage({ pcm: buffer, level }, [buffer]);
    this.#chunk = new Int16Array(CHUNK_SAMPLES);
    this.#filled = 0;
    this.#energy = 0;
  }
}

registerProcessor("capture", Capture);
