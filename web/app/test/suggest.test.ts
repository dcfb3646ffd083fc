import { describe, expect, it } from 'vitest'
import { amongArguments, signatureIn } from '../src/notebook/signature'
import { wantsSuggestion } from '../src/notebook/suggest'

describe('suggestions while typing', () => {
  it('come behind two letters of a name, and behind a dot after one', () => {
    for (const text of ['pr', 'x = pri', 'foo.', 'foo.b', 'f(x).', 'a[0].c', "'a'.up", '$this->', 'std::', 'größe', '_x']) expect(wantsSuggestion(text), text).toBe(true)
  })

  it('do not come behind numbers, spaces, signs and single letters', () => {
    for (const text of ['', ' ', 'x', 'x = ', '3', '3.', 'x = 10.', '1e', '0xff', 'f(', '..', 'a, ']) expect(wantsSuggestion(text), text).toBe(false)
  })
})

describe('signatures', () => {
  it('are the part of the description before the text', () => {
    expect(signatureIn("\x1b[31mSignature:\x1b[39m round(number, ndigits=None)\n\x1b[31mDocstring:\x1b[39m\nRound a number.")).toBe('round(number, ndigits=None)')
    expect(signatureIn('Signature:\nf(\n    a,\n    b,\n)\nDocstring: text')).toBe('f(\n    a,\n    b,\n)')
    expect(signatureIn('Init signature: Path(*args)\nDocstring: a path')).toBe('Path(*args)')
    expect(signatureIn('func Println(a ...any) (n int, err error)\n\nPrintln prints.')).toBe('func Println(a ...any) (n int, err error)')
    expect(signatureIn('Type: int\nString form: 3')).toBeUndefined()
    expect(signatureIn('')).toBeUndefined()
  })

  it('stay while the cursor is among the arguments', () => {
    for (const text of ['', 'a, ', 'g(1), ', '(a)']) expect(amongArguments(text), text).toBe(true)
    for (const text of ['a)', 'g(1))', 'x'.repeat(3000)]) expect(amongArguments(text)).toBe(false)
  })
})
