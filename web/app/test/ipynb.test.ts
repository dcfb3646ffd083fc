import { describe, expect, it } from 'vitest'
import { formatNotebook, NotNotebook, parseNotebook } from '../src/notebook/ipynb'

/** As written by nbformat 5. */
const file = `{
 "cells": [
  {
   "attachments": {
    "p.png": {
     "image/png": "aGk="
    }
   },
   "cell_type": "markdown",
   "id": "m1",
   "metadata": {
    "tags": [
     "x"
    ]
   },
   "source": [
    "# Title\\n",
    "text ü"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "c1",
   "metadata": {
    "my": {
     "own": 1.5
    }
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "a\\n",
      "\\r",
      "50%\\u001b[31m"
     ]
    },
    {
     "data": {
      "application/json": {
       "a": [
        "1\\n",
        "2"
       ]
      },
      "image/png": "aGk=\\n",
      "image/svg+xml": [
       "<svg>\\n",
       "</svg>"
      ],
      "text/plain": [
       "x"
      ]
     },
     "execution_count": 3,
     "metadata": {},
     "output_type": "execute_result"
    },
    {
     "ename": "E",
     "evalue": "v",
     "output_type": "error",
     "traceback": [
      "t"
     ]
    }
   ],
   "source": []
  }
 ],
 "metadata": {
  "kernelspec": {
   "display_name": "Python 3",
   "language": "python",
   "name": "python3"
  },
  "unknown": "kept"
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`

describe('notebooks', () => {
  it('come out as they went in', () => {
    expect(formatNotebook(parseNotebook(file))).toBe(file)
  })

  it('read text as lines or as one string', () => {
    const n = parseNotebook('{"cells":[{"cell_type":"code","source":"a\\nb","outputs":[{"output_type":"stream","name":"stdout","text":"x"}]}],"nbformat":4,"nbformat_minor":4,"metadata":{}}')
    expect(n.cells[0]).toMatchObject({ source: 'a\nb', outputs: [{ text: 'x' }], execution_count: null })
    expect(n.cells[0]!.id).toMatch(/^[0-9a-f]{8}$/)
  })

  it('make ids that are there twice different', () => {
    const n = parseNotebook('{"cells":[{"id":"a","cell_type":"raw","source":""},{"id":"a","cell_type":"raw","source":""}],"nbformat":4}')
    expect(new Set(n.cells.map((c) => c.id)).size).toBe(2)
  })

  it.each(['', 'no', '[]', '{"cells":1}', '{"worksheets":[],"nbformat":3}', '{"cells":[],"nbformat":5}'])('say that %j is none', (text) => {
    expect(() => parseNotebook(text)).toThrow(NotNotebook)
  })

  it('survive whatever stands where something else was due', () => {
    const n = parseNotebook('{"cells":[1,null,{"cell_type":7,"source":[1,"a"],"metadata":[],"outputs":[{},null,{"output_type":"error"},{"output_type":"display_data","data":{"text/plain":["a","b"]}}]}],"metadata":3}')
    expect(n.cells).toHaveLength(1)
    expect(n.cells[0]).toMatchObject({ cell_type: 'code', source: 'a', metadata: {}, outputs: [{ ename: '' }, { data: { 'text/plain': 'ab' } }] })
  })
})
