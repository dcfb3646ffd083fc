import { render } from 'preact'
import { App } from './app'
import { takeGiven } from './given'
import { startLanguage } from './language/start'
import { startOffers } from './rest'
import { startRouter } from './router'
import { startServer } from './server'
import './style/tokens.css'
import './style/base.css'
import { startSettings } from './settings'
import { startTheme } from './theme'
import { takeToken } from './token'
import { startWorker } from './worker'

takeToken()
// The printed address may be pasted into a tab that already shows this page.
addEventListener('hashchange', takeToken)
startTheme()
startSettings()
startServer()
void startOffers()
startRouter()
takeGiven()
startWorker()
void startLanguage().then(() => render(<App />, document.getElementById('app')!))
