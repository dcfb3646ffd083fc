/** The place of a buffer in a state. */
type Path = (string | number)[]

/** A message of the page to the code of widgets in a frame. */
export type FromPage =
  | { model: { id: string; state: Record<string, unknown>; paths: Path[]; buffers: ArrayBuffer[] } }
  | { message: { id: string; data: Record<string, unknown>; buffers: ArrayBuffer[] } }
  | { closed: string }
  | { link: string }
  | { done?: number; refused?: string; id?: string }

/** A message of that code to the page. */
export type ToPage =
  | { want: string }
  | { send: { id: string; n: number; data: unknown; buffers: ArrayBuffer[] } }
