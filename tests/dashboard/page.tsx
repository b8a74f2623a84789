// Draws the dashboard as Grafana does: with the components, units, colours and calculations of Grafana's own packages.
//
// What a panel shows, and how, is told by its `fieldConfig` and `options` in dashboard.json; Grafana's code reads them.
// Ours is what Grafana has in its server's pages and not in its packages: the grid, the rows' titles, the line on top,
// how a panel of either kind is made of components, and what it does where an option is not set.

import {
  FieldConfigOptionsRegistry,
  type DataFrame,
  type FieldConfigPropertyItem,
  type FieldConfigSource,
  FieldColorModeId,
  FieldType,
  type TimeRange,
  ThemeContext,
  VizOrientation,
  applyFieldOverrides,
  createDataFrame,
  createTheme,
  dateTime,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
} from '@grafana/data';
import { defaultOptions as statDefaults } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import {
  BigValue,
  BigValueGraphMode,
  GlobalStyles,
  Icon,
  PanelChrome,
  Text,
  TimeRangeLabel,
  TimeSeries,
  VizRepeater,
} from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { flushSync } from 'react-dom';

// Grafana has it among its own pages' styles.
import 'uplot/dist/uPlot.min.css';

interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  fieldConfig: FieldConfigSource;
  options: any;
}

/** A line as Prometheus told it, under the name that the query gives it. Times are seconds, values are texts. */
interface Series {
  refId: string;
  name: string;
  labels: Record<string, string>;
  values: Array<[number, string]>;
}

interface Run {
  dashboard: { title: string; panels: Panel[] };
  series: Record<string, Series[]>;
  chosen: Array<[label: string, value: string]>;
  begin: number;
  end: number;
  step: number;
}

// Grafana's grid: columns, the height of a row, and what is between two.
const COLUMNS = 24;
const ROW = 30;
const GAP = 8;
const HEAD = 48;

const theme = createTheme({ colors: { mode: 'light' } });
const timeZone = 'utc';
const asItIs = (text: string) => text;

/** Which options there are Grafana tells its packages when it starts. Here they are those that the panel has. */
function optionsOf({ defaults, overrides }: FieldConfigSource) {
  const ids = new Set(Object.keys(defaults).filter((key) => key !== 'custom'));
  Object.keys(defaults.custom ?? {}).forEach((key) => ids.add(`custom.${key}`));
  overrides.forEach((rule) => rule.properties.forEach((property) => ids.add(property.id)));
  const items = [...ids].map((id) => ({
    id,
    path: id.replace(/^custom\./, ''),
    isCustom: id.startsWith('custom.'),
    process: (value: unknown) => value,
    shouldApply: (field: { type: FieldType }) => field.type === FieldType.number,
  }));
  return new FieldConfigOptionsRegistry(() => items as unknown as FieldConfigPropertyItem[]);
}

function frameOf({ refId, name, labels, values }: Series, step: number): DataFrame {
  return createDataFrame({
    refId,
    fields: [
      // The interval is how far apart values are: there is a gap in the line where one is missing.
      {
        name: 'Time',
        type: FieldType.time,
        values: values.map(([at]) => at * 1000),
        config: { interval: step * 1000 },
      },
      {
        name: 'Value',
        type: FieldType.number,
        labels,
        // What is no number, as the quantile of nothing, is not drawn.
        values: values.map(([, value]) => (Number.isFinite(Number(value)) ? Number(value) : null)),
        config: { displayNameFromDS: name },
      },
    ],
  });
}

function framesOf(panel: Panel, run: Run, defaults: FieldConfigSource['defaults'] = {}) {
  const fieldConfig = { ...panel.fieldConfig, defaults: { ...defaults, ...panel.fieldConfig.defaults } };
  const data = run.series[panel.id].map((series) => frameOf(series, run.step));
  const fieldConfigRegistry = optionsOf(fieldConfig);
  return applyFieldOverrides({ data, fieldConfig, fieldConfigRegistry, replaceVariables: asItIs, theme, timeZone });
}

interface Drawn {
  panel: Panel;
  run: Run;
  width: number;
  height: number;
}

function Lines({ panel, run, width, height }: Drawn) {
  // A panel of this kind takes its colours from the palette if it is not told otherwise.
  const frames = framesOf(panel, run, { color: { mode: FieldColorModeId.PaletteClassic } });
  const { options } = panel;
  const legend = { showLegend: true, ...options.legend };
  return <TimeSeries {...{ frames, legend, options, timeZone, width, height }} timeRange={rangeOf(run)} />;
}

function Stat({ panel, run, width, height }: Drawn) {
  const options = { ...statDefaults, ...panel.options };
  const data = framesOf(panel, run);
  const { fieldConfig } = panel;
  const getValues = () =>
    getFieldDisplayValues({
      ...{ data, fieldConfig, theme, timeZone },
      replaceVariables: asItIs,
      reduceOptions: options.reduceOptions,
      sparkline: options.graphMode !== BigValueGraphMode.None,
      percentChange: options.showPercentChange,
    });
  return (
    <VizRepeater
      {...{ width, height, getValues }}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      source={data}
      renderCounter={0}
      autoGrid
      orientation={options.orientation ?? VizOrientation.Auto}
      renderValue={({ value, alignmentFactors, width, height, count }) => (
        <BigValue
          {...{ theme, width, height, alignmentFactors, count }}
          value={value.display}
          sparkline={value.sparkline}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          justifyMode={options.justifyMode}
          textMode={options.textMode}
          percentChangeColorMode={options.percentChangeColorMode}
          text={options.text}
          disableWideLayout={!options.wideLayout}
        />
      )}
    />
  );
}

const KINDS: Record<string, (props: Drawn) => React.JSX.Element> = { timeseries: Lines, stat: Stat };

function Placed({ panel, run }: { panel: Panel; run: Run }) {
  const { x, y, w, h } = panel.gridPos;
  const column = (document.body.clientWidth - GAP) / COLUMNS;
  const width = Math.floor(w * column) - GAP;
  const height = h * (ROW + GAP) - GAP;
  const [left, top] = [GAP + Math.floor(x * column), HEAD + y * (ROW + GAP)];
  const place = { position: 'absolute', left, top, width, height } as const;
  if (panel.type === 'row') {
    return (
      <div style={{ ...place, display: 'flex', alignItems: 'center', gap: GAP }}>
        <Icon name="angle-down" />
        <Text element="h3" variant="h5">{panel.title}</Text>
      </div>
    );
  }
  const Kind = KINDS[panel.type];
  if (!Kind) {
    throw new Error(`${panel.title}: there is no panel of the kind ${panel.type} here`);
  }
  return (
    <div className={panel.type} style={place}>
      <PanelChrome {...{ width, height }} title={panel.title} description={panel.description}>
        {(width: number, height: number) => <Kind {...{ panel, run, width, height }} />}
      </PanelChrome>
    </div>
  );
}

function rangeOf({ begin, end }: Run): TimeRange {
  const [from, to] = [dateTime(begin * 1000), dateTime(end * 1000)];
  return { from, to, raw: { from, to } };
}

function Page({ run }: { run: Run }) {
  const { title, panels } = run.dashboard;
  const rows = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  const height = HEAD + rows * (ROW + GAP);
  return (
    <div style={{ position: 'relative', height, background: theme.colors.background.canvas }}>
      <div style={{ display: 'flex', alignItems: 'center', gap: 3 * GAP, height: HEAD, padding: `0 ${GAP}px` }}>
        <Text element="h1" variant="h3">{title}</Text>
        {run.chosen.map(([label, value]) => (
          <div key={label}>
            <Text color="secondary">{label}</Text> {value}
          </div>
        ))}
        <div style={{ marginLeft: 'auto' }}>
          <TimeRangeLabel value={rangeOf(run)} timeZone={timeZone} />
        </div>
      </div>
      {panels.map((panel) => (
        <Placed key={panel.id} {...{ panel, run }} />
      ))}
    </div>
  );
}

/** Draws a run. Its letters have to be there before: numbers of an axis are painted once. */
async function draw(run: Run) {
  document.body.style.margin = '0';
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  const render = (what?: React.ReactNode) =>
    flushSync(() => {
      root.render(
        <ThemeContext.Provider value={theme}>
          <GlobalStyles />
          {what}
        </ThemeContext.Provider>
      );
    });
  render();
  await Promise.all(['400', '500'].map((weight) => document.fonts.load(`${weight} 12px Inter`)));
  render(<Page run={run} />);
}

Object.assign(window, { draw });
