import { aborted, fromResponse, orAborted, SandgateError } from './fault.js'
import type { Http } from './http.js'
import type { Platform } from './socket.js'
import type { Abortable, FileInfo } from './types.js'

export type FileContent = string | Blob | ArrayBuffer | Uint8Array | ReadableStream<Uint8Array>

export interface UploadOptions extends Abortable {
  /** Permission bits; 0o644 if left out. */
  mode?: number
  /** Write only over the file with this etag; null: only where none is. Otherwise it is a conflict. */
  over?: string | null
  /** Is told how many bytes are on their way; of how many, where that is known. */
  onProgress?: (sent: number, total: number | undefined) => void
}

/** A file that is being downloaded. Its content can be taken once. */
export interface Download {
  /** In bytes; undefined where it is not known before the end, as in /proc. */
  size: number | undefined
  mode: number | undefined
  modified_ms: number | undefined
  etag: string | undefined
  /** Fails with a SandgateError when the file does not arrive whole. */
  body: ReadableStream<Uint8Array>
  bytes(): Promise<Uint8Array>
  text(): Promise<string>
}

/**
 * The segments of a file's address. The slashes of its path are kept, but for
 * the first of an absolute path, which a proxy might join with the one before.
 */
export function fileSegments(session: string, path: string): string[] {
  const parts = path.replace(/^\/+/, '').split('/').filter((p) => p !== '' && p !== '.')
  // An address with .. in it would be another one before it left this machine.
  if (parts.includes('..') || parts.length === 0 || path.endsWith('/')) {
    throw new SandgateError('invalid_argument', parts.length && !path.endsWith('/') ? 'a path has no .. in it' : 'the path names no file', { field: 'path' })
  }
  if (path.startsWith('/')) parts[0] = `/${parts[0]}`
  return ['v1', 'sessions', session, 'files', ...parts]
}

export async function upload(http: Http, platform: Platform, session: string, path: string, content: FileContent, o: UploadOptions): Promise<FileInfo> {
  if (o.signal?.aborted) throw aborted(o.signal)
  const url = http.endpoint(fileSegments(session, path), o.mode === undefined ? {} : { mode: o.mode.toString(8) }).href
  const body = content instanceof ReadableStream || content instanceof Blob ? content : new Blob([content as BlobPart])
  const total = body instanceof Blob ? body.size : undefined
  const send = async (token: string | undefined) => {
    const headers: Record<string, string> = { 'Content-Type': 'application/octet-stream' }
    if (token) headers.Authorization = `Bearer ${token}`
    if (o.over === null) headers['If-None-Match'] = '*'
    else if (o.over !== undefined) headers['If-Match'] = `"${o.over}"`
    const progress = o.onProgress && ((sent: number) => o.onProgress!(sent, total))
    const res = await platform.upload({ url, headers, body, signal: o.signal, progress })
    if (res.status < 200 || res.status > 299) throw fromResponse(res.status, res.retryAfter, res.body)
    return JSON.parse(res.body) as FileInfo
  }
  try {
    // A stream can be sent once only.
    return await (body instanceof Blob ? http.withToken(send) : send(await http.token()))
  } catch (e) {
    if (o.signal?.aborted) throw aborted(o.signal)
    throw e
  }
}

export async function download(http: Http, session: string, path: string, o: Abortable): Promise<Download> {
  const res = await http.send(fileSegments(session, path), o)
  const length = res.headers.get('Content-Length')
  const mode = res.headers.get('X-File-Mode')
  const modified = Date.parse(res.headers.get('Last-Modified') ?? '')
  const etag = /^"(.*)"$/.exec(res.headers.get('ETag') ?? '')?.[1]
  const size = length === null ? undefined : Number(length)
  const body = whole(res.body, size, (e) => http.unreachable(e, o.signal))
  return {
    size, mode: mode ? parseInt(mode, 8) : undefined, modified_ms: Number.isNaN(modified) ? undefined : modified, etag, body,
    bytes: async () => new Uint8Array(await orAborted(new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(), o.signal)),
    text: () => orAborted(new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).text(), o.signal),
  }
}

/** Passes a body on; one that ends before its size is an error, never a short file. */
function whole(source: ReadableStream<Uint8Array> | null, size: number | undefined, failure: (e: unknown) => SandgateError): ReadableStream<Uint8Array> {
  const reader = (source ?? new Blob([]).stream()).getReader()
  let got = 0
  return new ReadableStream<Uint8Array>({
    async pull(out) {
      try {
        const { done, value } = await reader.read()
        if (!done) {
          got += value.length
          out.enqueue(value)
        } else if (size !== undefined && got !== size) {
          throw new SandgateError('unavailable', `${got} bytes arrived of ${size}`)
        } else {
          out.close()
        }
      } catch (e) {
        out.error(failure(e))
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 })
}
