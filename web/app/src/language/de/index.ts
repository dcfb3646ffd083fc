import type { Language, Texts } from '../texts'
import { common } from './common'
import { consoleTexts } from './console'
import { home } from './home'
import { notebook } from './notebook'
import { beside } from './beside'
import { output } from './output'
import { terminal } from './terminal'

const texts: Texts = { ...common, ...home, ...consoleTexts, ...notebook, ...output, ...beside, ...terminal }

export const german: Language = { tag: 'de', texts }
