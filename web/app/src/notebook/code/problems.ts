import { effect } from '@preact/signals'
import type { CellModel } from '../cell'
import type { Notebook } from '../notebook'
import { ask, type Problem } from './ask'
import { knowsTypes } from './types'
import './problems.css'

/** The time after the last key until the code is checked, in milliseconds. */
const after = 700

/**
 * Keeps the problems of a cell's code up to date, until the returned function is called. A kernel
 * that runs a cell is asked when it has ended, unless it answers meanwhile.
 */
export function watchProblems(n: Notebook, c: CellModel): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let turn = 0
  const stop = effect(() => {
    const source = c.source.value
    const code = c.type.value === 'code' && source.trim() !== ''
    void n.turns.value
    void n.kernels.all.value
    const link = n.kernels.all.value.find((k) => k.language === c.language.value)
    const state = link?.state.value
    const ready = state === 'idle' || (state === 'busy' && knowsTypes(c.language.value))
    clearTimeout(timer)
    const mine = ++turn
    if (!code || !link) {
      // Not at once: the editor may be the one that changes the source.
      queueMicrotask(() => { if (mine === turn && c.problems.peek().length > 0) c.problems.value = [] })
      return
    }
    if (!ready) return
    timer = setTimeout(() => {
      ask<{ problems: Problem[] }>(n, c, 'problems').then((found) => {
        if (mine === turn) c.problems.value = found?.problems ?? []
      }, () => {}) // the next change asks again
    }, after)
  })
  return () => {
    stop()
    clearTimeout(timer)
    turn++
  }
}
