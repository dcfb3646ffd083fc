// The names that cells find without an import, for the language server.
/** A value that is shown in place. */
interface Handle {
  id: string;
  /** Shows something else in the same place. */
  update(value: unknown): void;
}
interface DisplayOptions {
  id?: string;
}
interface Display {
  /** Shows a value. */
  (value: unknown, options?: DisplayOptions): Handle;
  /** Shows HTML. */
  html(text: string, options?: DisplayOptions): Handle;
  markdown(text: string, options?: DisplayOptions): Handle;
  latex(text: string, options?: DisplayOptions): Handle;
  svg(text: string, options?: DisplayOptions): Handle;
  json(value: unknown, options?: DisplayOptions): Handle;
  /** Shows a picture: its bytes, its path, a data URL or SVG. */
  image(picture: Uint8Array | string, options?: DisplayOptions): Handle;
  /** Shows rows as a table. */
  table(rows: readonly unknown[], columns?: readonly string[] | DisplayOptions, options?: DisplayOptions): Handle;
  /** Shows a chart of Vega-Lite or Vega. */
  chart(spec: object, options?: DisplayOptions): Handle;
  /** Shows a MIME bundle. */
  raw(bundle: Record<string, unknown>, options?: DisplayOptions): Handle;
  /** Removes the cell's output, with wait before the next output. */
  clear(wait?: boolean): void;
  /** Shows something else where the value with this id is. */
  update(id: string, value: unknown): void;
}
/** Shows values in the output of the cell. */
declare var display: Display;
/** Values that the kernels of the session share. */
declare var sandgate: {
  /** Stores a value under a name. */
  put(name: string, value: unknown): any;
  get(name: string): any;
  names(): any;
};
/** The last result. */
declare var _: any;
declare var React: any;
/** Asks the user for a line. */
declare var prompt: { (text?: string, fallback?: string): string | null; password(text?: string): string | null };
/** Asks the user to confirm. */
declare function confirm(text?: string): boolean;
declare function alert(text?: string): void;
declare namespace JSX {
  type Element = any;
  interface IntrinsicElements {
    [name: string]: any;
  }
}
