/** The microphone as PCM chunks: 16 bit, mono, at the rate of the given context. */
export class Microphone {
  #stream;
  #source;
  #capture;
  muted = false;

  /** @throws {DOMException} when the browser or the user says no. */
  static async open(context, onChunk) {
    if (!navigator.mediaDevices) {
      throw new Error("Browsers give the microphone only to https pages and to localhost.");
    }
    const microphone = new Microphone();
    microphone.#stream = await navigator.mediaDevices.getUserMedia({
      // The browser hears what it plays itself, so its canceller is the one to use.
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    });
    try {
      await microphone.#connect(context, onChunk);
    } catch (error) {
      microphone.close();
      throw error;
    }
    return microphone;
  }

  async #connect(context, onChunk) {
    await context.audioWorklet.addModule("/static/capture-worklet.js");
    this.#source = context.createMediaStreamSource(this.#stream);
    this.#capture = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
    this.#capture.port.onmessage = ({ data }) => {
      // Silence instead of nothing: the server's clock of the input must not stand still.
      const pcm = this.muted ? new ArrayBuffer(data.pcm.byteLength) : data.pcm;
      onChunk(pcm, this.muted ? 0 : data.level);
    };
    this.#source.connect(this.#capture);
  }

  close() {
    this.#source?.disconnect();
    this.#capture?.port.close();
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
  }
}
