import { describe, expect, it, vi } from 'vitest'
import type { CellEvent } from '@sandgate/client/base'
import { Captured, Captures } from '../src/notebook/widgets/captured'
import { Echoes } from '../src/notebook/widgets/echo'
import { toBase64 } from '../src/notebook/widgets/encode'
import { Guard, maxMessage } from '../src/notebook/widgets/guard'
import { WidgetHost } from '../src/notebook/widgets/host'
import { merge, partOf, references, statesOf, without } from '../src/notebook/widgets/state'
import sanitize from '../src/widgets/sanitize'

const event = (e: object) => ({ cell: 1, time: 0, ...e }) as CellEvent

describe('the state of a model', () => {
  it('takes over attributes with their buffers, and survives what is not a state', () => {
    const a = partOf({ data: { state: { v: 1, raw: null }, buffer_paths: [['raw'], ['list', 0]] }, buffers: ['AA==', 'AQ=='] })!
    expect(merge(a, { state: { v: 2 }, paths: [['raw']], buffers: ['Ag=='] })).toEqual({ state: { v: 2, raw: null }, paths: [['list', 0], ['raw']], buffers: ['AQ==', 'Ag=='] })
    expect(merge(a, { state: { raw: 'text' }, paths: [], buffers: [] })).toEqual({ state: { v: 1, raw: 'text' }, paths: [['list', 0]], buffers: ['AQ=='] })
    expect(without(a, new Set(['raw']))).toEqual({ state: { v: 1 }, paths: [['list', 0]], buffers: ['AQ=='] })
    for (const data of [undefined, {}, { state: 1 }, { state: [] }]) expect(partOf({ data: data as never })).toBeUndefined()
    expect(partOf({ data: { state: {}, buffer_paths: ['x', [], ['a']] }, buffers: [1, 'AA=='] as never })).toEqual({ state: {}, paths: [['a']], buffers: ['AA=='] })
    const hostile = JSON.parse('{"__proto__": {"bad": 1}}') as Record<string, unknown>
    merge(a, { state: hostile, paths: [], buffers: [] })
    expect(({} as { bad?: number }).bad).toBeUndefined()
  })

  it('names the models that it refers to', () => {
    expect([...references({ a: ['IPY_MODEL_x', { b: 'IPY_MODEL_y' }], c: 'other', d: null })].sort()).toEqual(['x', 'y'])
    const states = statesOf({ data: { states: { x: { model_name: 'M', state: { v: 1 } }, y: 5 }, buffer_paths: [['x', 'state', 'raw'], ['y', 'state', 'raw'], 'z'] }, buffers: ['AA==', 'AQ=='] })
    expect([...states]).toEqual([['x', { state: { v: 1 }, paths: [['raw']], buffers: ['AA=='] }]])
    expect(toBase64(new Uint8Array(70_000).fill(255))).toBe(Buffer.alloc(70_000, 255).toString('base64'))
  })
})

describe('repeated changes', () => {
  it('do not move a slider back that is being dragged', () => {
    const e = new Echoes()
    for (const value of [1, 2, 3]) e.sent({ value }, 0)
    expect([...e.old({ value: 1 }, 10)]).toEqual(['value']) // an older position
    expect([...e.old({ value: 9, other: 1 }, 10)]).toEqual(['value']) // of another viewer, before its own last one
    expect([...e.old({ value: 3 }, 10)]).toEqual(['value'])
    expect([...e.old({ value: 9 }, 10)]).toEqual([]) // everything sent has come back
    e.sent({ value: 4 }, 20)
    expect([...e.old({ value: 5 }, 20_000)]).toEqual([]) // a kernel that repeats nothing
  })
})

describe('the messages of a frame', () => {
  const send = (data: unknown, buffers: unknown[] = [], id: unknown = 'm', n: unknown = 1) => ({ send: { id, n, data, buffers } })
  const why = (m: unknown) => {
    const r = new Guard().check(m, 0)
    return r.kind === 'refused' ? r.why : r.kind
  }

  it('are updates and custom messages, of bounded size', () => {
    expect(new Guard().check(send({ method: 'update', state: { value: 1 }, buffer_paths: [['raw']], extra: 1 }, [new Uint8Array([1])]), 0)).toEqual({
      kind: 'send', id: 'm', n: 1, data: { method: 'update', state: { value: 1 }, buffer_paths: [['raw']] }, buffers: [new Uint8Array([1])],
    })
    expect(why(send({ method: 'custom', content: 'x' }))).toBe('send')
    expect(why({ want: 'm' })).toBe('want')
    for (const m of [undefined, null, 1, [], {}, { want: 5 }, { want: '' }, { want: 'x'.repeat(129) }, send({}, [], 5), send({}, [], 'm', 'n'), send({}, [], 'm', NaN)]) expect(why(m), JSON.stringify(m)).toMatch(/not a message|names no model/)
    expect(why(send({ method: 'request_state' }))).toMatch(/neither/)
    expect(why(send({ method: 'update', state: { _model_name: 'X' }, buffer_paths: [] }))).toMatch(/code/)
    expect(why(send({ method: 'update', state: {}, buffer_paths: [['_esm']] }, [new ArrayBuffer(1)]))).toMatch(/code/)
    expect(why(send({ method: 'update', state: {}, buffer_paths: [] }, [new ArrayBuffer(1)]))).toMatch(/places/)
    expect(why(send({ method: 'custom', content: 1 }, ['text']))).toMatch(/not binary/)
    expect(why(send({ method: 'custom', content: 'x'.repeat(maxMessage) }))).toMatch(/larger/)
    expect(why(send({ method: 'custom', content: 1 }, [new ArrayBuffer(maxMessage)]))).toMatch(/larger/)
    const circle: Record<string, unknown> = { method: 'custom' }
    circle.content = circle
    expect(why(send(circle))).toMatch(/not JSON/)
  })

  it('are counted, and a frame that goes on is stopped', () => {
    const g = new Guard()
    const kinds = Array.from({ length: 1200 }, () => g.check(send({ method: 'custom', content: 1 }), 0).kind)
    expect(kinds.filter((k) => k === 'send').length).toBe(600)
    expect(kinds.at(-1)).toBe('stop')
    const large = new Guard()
    const sizes = Array.from({ length: 12 }, (_, i) => large.check(send({ method: 'custom', content: 'x'.repeat(1_000_000) }), i).kind)
    expect(sizes.filter((k) => k === 'send').length).toBe(8)
    const calm = new Guard()
    for (let i = 0; i < 1000; i++) expect(calm.check(send({ method: 'custom', content: 1 }), i * 20).kind).toBe('send') // 50 a second
  })
})

describe('an Output widget', () => {
  it('takes the output of the cell that it names, and of no other', () => {
    const c = new Captures()
    c.update('out', { msg_id: '3' })
    c.update('inner', { msg_id: '3' })
    expect([c.of(3), c.of(4)]).toEqual(['inner', undefined])
    c.update('inner', { msg_id: '' })
    expect(c.of(3)).toBe('out')
    c.update('out', { value: 1 })
    c.update('out', { msg_id: '' })
    expect(c.of(3)).toBeUndefined()
  })

  it('joins text, clears before the next output, and updates displays', () => {
    const o = new Captured([{ output_type: 'stream', name: 'stdout', text: 'old\n' }, 5])
    o.add(event({ type: 'stdout', text: 'a' }))
    expect(o.outputs).toEqual([{ output_type: 'stream', name: 'stdout', text: 'old\na' }])
    o.add(event({ type: 'clear_output', wait: true }))
    expect(o.outputs.length).toBe(1)
    o.add(event({ type: 'display_data', data: { 'text/plain': '1' }, metadata: {}, transient: { display_id: 'd' } }))
    o.add(event({ type: 'update_display_data', data: { 'text/plain': '2' }, metadata: {}, transient: { display_id: 'd' } }))
    expect(o.outputs).toEqual([{ output_type: 'display_data', data: { 'text/plain': '2' }, metadata: {} }])
    expect(o.add(event({ type: 'execute_reply' }))).toBe(false)
    for (let i = 0; i < 600; i++) o.add(event({ type: 'display_data', data: {}, metadata: {} }))
    expect(o.outputs.length).toBe(500)
  })
})

describe('the widgets of a kernel', () => {
  const opened = (id: string, state: object) => event({ type: 'comm_open', comm_id: id, target_name: 'jupyter.widget', data: { state: { _model_name: 'M', _model_module: 'x', ...state } } })
  const rig = () => {
    const sent: unknown[] = []
    const kernel = { comm: (type: string, c: object) => (sent.push({ type, ...c }), Promise.resolve()), isComplete: () => Promise.resolve({}) }
    const host = new WidgetHost({ readOnly: false, idle: () => true, kernel: () => Promise.resolve(kernel as never), replay: () => Promise.resolve() })
    const join = (root: string) => {
      const posts: Record<string, unknown>[] = []
      const states: string[] = []
      return { posts, states, member: host.join(root, { post: (m) => void posts.push(m as never), state: (s) => void states.push(s) }) }
    }
    return { host, sent, join }
  }

  it('reach the frames that show them, and only those', async () => {
    const { host, sent, join } = rig()
    host.receive(opened('child', { value: 1 }))
    host.receive(opened('root', { children: ['IPY_MODEL_child'] }))
    host.receive(opened('other', { value: 5 }))
    const a = join('root')
    const b = join('child')
    a.member.heard({ want: 'child' }) // before its state named it
    expect(a.posts).toEqual([{ refused: 'the frame does not show this model', id: 'child' }])
    a.member.heard({ want: 'root' })
    a.member.heard({ want: 'child' })
    b.member.heard({ want: 'child' })
    a.posts.length = b.posts.length = 0
    a.member.heard({ send: { id: 'child', n: 1, data: { method: 'update', state: { value: 2 }, buffer_paths: [] } } })
    await vi.waitFor(() => expect(a.posts).toEqual([{ done: 1 }]))
    expect(b.posts).toEqual([{ message: { id: 'child', data: { method: 'update', state: { value: 2 }, buffer_paths: [] }, buffers: [] } }])
    expect(sent).toEqual([{ type: 'comm_msg', comm_id: 'child', data: { method: 'update', state: { value: 2 }, buffer_paths: [] } }])
    a.posts.length = 0
    a.member.heard({ send: { id: 'other', n: 2, data: { method: 'update', state: { value: 2 }, buffer_paths: [] } } })
    expect(a.posts).toEqual([{ refused: 'the frame does not show this model', done: 2, id: 'other' }])
    a.posts.length = 0
    host.receive(event({ type: 'comm_msg', comm_id: 'child', data: { method: 'echo_update', state: { value: 2 } } }))
    host.receive(event({ type: 'comm_msg', comm_id: 'other', data: { method: 'update', state: { value: 6 } } }))
    expect(a.posts).toEqual([])
    host.receive(event({ type: 'gap', from: 0, to: 9, bytes: 9 }))
    await vi.waitFor(() => expect(sent.slice(1).map((s) => (s as { comm_id: string }).comm_id)).toEqual(['root', 'child']))
    host.receive(event({ type: 'comm_close', comm_id: 'root', data: {} }))
    expect(a.states).toEqual(['waiting', 'live', 'closed'])
    host.gone()
    expect(b.states).toEqual(['waiting', 'live', 'gone'])
  })

  it('are requested from the kernel once they are needed, and one by one if it does not answer', async () => {
    const { host, sent, join } = rig()
    const a = join('m')
    a.member.heard({ want: 'm' })
    host.receive(event({ type: 'comm_msg', comm_id: 'm', data: { method: 'update', state: { value: 7 } } })) // newer than the whole state
    await new Promise((r) => setTimeout(r))
    expect(sent.map((s) => [(s as { type: string }).type, (s as { data: { method?: string } }).data.method])).toEqual([
      ['comm_open', undefined], ['comm_msg', 'request_states'], ['comm_close', undefined], ['comm_msg', 'request_state'],
    ])
    host.receive(event({ type: 'comm_msg', comm_id: 'c', data: { method: 'update_states', states: { m: { state: { _model_name: 'M', _model_module: 'x', value: 3 } } } } }))
    expect((a.posts[0] as { model: { state: object } }).model.state).toEqual({ _model_name: 'M', _model_module: 'x', value: 7 })
    const lost = join('unknown')
    lost.member.heard({ want: 'unknown' })
    host.receive(event({ type: 'comm_close', comm_id: 'unknown', data: {} }))
    expect(lost.states).toEqual(['waiting', 'gone'])
  })

  it('give each link to one frame', () => {
    const { host, join } = rig()
    host.receive(opened('a', {}))
    host.receive(opened('l', { _model_module: '@jupyter-widgets/controls', _model_name: 'LinkModel', source: ['IPY_MODEL_a', 'value'], target: ['IPY_MODEL_b', 'value'] }))
    const [one, two] = [join('a'), join('a')]
    for (const x of [one, two]) x.member.heard({ want: 'a' })
    expect([one, two].map((x) => x.posts.filter((p) => 'link' in p))).toEqual([[{ link: 'l' }], []])
    one.member.leave()
    expect(two.posts.filter((p) => 'link' in p)).toEqual([{ link: 'l' }])
  })
})

it('keeps little of the HTML of a description', () => {
  const o = { allowedTags: ['a', 'b'], allowedAttributes: { '*': ['class', 'aria-*'], a: ['href'] } }
  expect(sanitize('<b class="x" onclick="y" aria-label="z">bold</b><i>text</i><script>bad()</script><a href="javascript:bad()">a</a>', o)).toBe('<b class="x" aria-label="z">bold</b>text<a>a</a>')
})
