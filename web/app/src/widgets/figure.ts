// The models and views of plotly's FigureWidget. A frame loads this file and plotly.js when it shows
// a figure.
export { FigureModel, FigureView } from 'jupyterlab-plotly/lib/Figure'
