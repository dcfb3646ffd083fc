<?php
namespace Sandgate;

/*
 * Functions that cells can call without an import: display(), html(), table() … A function of the
 * user with the same name replaces them. In files that a cell includes they are \Sandgate\display()
 * and so on.
 */

/** Shows a value in its richest form. With an id, update_display() can replace it. */
function display(mixed $value, ?string $id = null): void
{
    show('display_data', Bundle::of($value), $id);
}

/** Replaces the content that display() has shown under an id. */
function update_display(mixed $value, string $id): void
{
    show('update_display_data', Bundle::of($value), $id);
}

/** Removes the cell's output; with $wait, when the next output comes. */
function clear_output(bool $wait = false): void
{
    Kernel::get()->output->message('clear_output', ['wait' => $wait]);
}

function html(string $html): void
{
    show('display_data', ['text/html' => $html, 'text/plain' => trim(html_entity_decode(strip_tags($html)))]);
}

function markdown(string $markdown): void
{
    show('display_data', ['text/markdown' => $markdown, 'text/plain' => $markdown]);
}

function latex(string $latex): void
{
    show('display_data', ['text/latex' => $latex, 'text/plain' => $latex]);
}

/** Shows any value as JSON that can be unfolded. */
function json(mixed $value): void
{
    $plain = Json::plain($value);
    show('display_data', ['application/json' => $plain, 'text/plain' => json_encode($plain, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR)]);
}

function svg(string $svg): void
{
    show('display_data', ['image/svg+xml' => $svg, 'text/plain' => '<svg>']);
}

/** Shows a GD image, or the bytes or the path of a PNG, JPEG, GIF, WebP or SVG. */
function image(\GdImage|string $image): void
{
    if ($image instanceof \GdImage) {
        show('display_data', Bundle::of($image));
        return;
    }
    $bytes = \strlen($image) < 4096 && !str_contains($image, "\0") && is_file($image) ? file_get_contents($image) : $image;
    $type = match (true) {
        str_starts_with($bytes, "\x89PNG") => 'image/png',
        str_starts_with($bytes, "\xff\xd8\xff") => 'image/jpeg',
        str_starts_with($bytes, 'GIF8') => 'image/gif',
        str_starts_with($bytes, 'RIFF') && substr($bytes, 8, 4) === 'WEBP' => 'image/webp',
        str_contains(substr($bytes, 0, 1000), '<svg') => 'image/svg+xml',
        default => throw new \InvalidArgumentException('this is neither an image nor the path of one'),
    };
    show('display_data', [$type => $type === 'image/svg+xml' ? $bytes : base64_encode($bytes), 'text/plain' => "<$type, " . \strlen($bytes) . ' bytes>']);
}

/** Shows rows, arrays or objects, as a table. */
function table(iterable $rows, ?array $columns = null): void
{
    $rows = \is_array($rows) ? $rows : iterator_to_array($rows, false);
    if ($columns !== null) {
        $rows = array_map(static fn ($row) => array_combine($columns, array_map(static fn ($c) => ((array) $row)[$c] ?? null, $columns)), $rows);
    }
    show('display_data', ['text/html' => Bundle::table($rows, $columns), 'text/plain' => Bundle::plainTable($rows)]);
}

/**
 * Shows a chart. The arguments are either a specification of Vega-Lite, or rows and the columns to
 * draw: chart($rows, 'bar', x: 'month', y: 'sales').
 */
function chart(array $rows, ?string $mark = null, ?string $x = null, ?string $y = null, ?string $color = null, ?string $title = null): void
{
    $spec = $rows;
    if (array_is_list($rows)) {
        $rows = array_map(static fn ($row) => \is_array($row) || \is_object($row) ? $row : ['y' => $row], $rows);
        foreach ($rows as $i => $row) { // a list of numbers
            if (\is_array($row) && array_keys($row) === ['y']) {
                $rows[$i] = ['x' => $i] + $row;
            }
        }
        $names = array_keys((array) ($rows[0] ?? []));
        [$x, $y] = [$x ?? $names[0] ?? 'x', $y ?? $names[1] ?? 'y'];
        $spec = ['data' => ['values' => $rows], 'mark' => $mark ?? 'line', 'encoding' => ['x' => axis($rows, $x), 'y' => axis($rows, $y)]];
        if ($color !== null) {
            $spec['encoding']['color'] = axis($rows, $color);
        }
        if ($title !== null) {
            $spec['title'] = $title;
        }
    }
    $spec += ['$schema' => 'https://vega.github.io/schema/vega-lite/v5.json'];
    show('display_data', ['application/vnd.vegalite.v5+json' => Json::plain($spec), 'text/plain' => '<chart>']);
}

/** Requests a line that is not shown while it is typed. */
function password(string $prompt = 'Password: '): string|false
{
    return Kernel::get()->input->ask($prompt, true);
}

/** Returns the path of a file that is about to be included, whose declarations replace others. */
function again(mixed $path): mixed
{
    $file = \is_string($path) ? stream_resolve_include_path($path) : false;
    $text = $file !== false && is_file($file) ? file_get_contents($file) : '';
    if (preg_match('/\b(function|class|interface|trait|enum|const)\b/i', (string) $text)) {
        Kernel::get()->source->renewAll($text);
    }
    return $path;
}

/** The same for include_once: a file that was included is not included again. */
function once(mixed $path): mixed
{
    $file = \is_string($path) ? stream_resolve_include_path($path) : false;
    return $file === false || \in_array($file, get_included_files(), true) ? $path : again($path);
}

/** Returns a text that is about to be evaluated. */
function evaluated(mixed $text): mixed
{
    if (\is_string($text) && preg_match('/\b(function|class|interface|trait|enum|const)\b/i', $text)) {
        Kernel::get()->source->renewAll("<?php $text");
    }
    return $text;
}

/** Returns a column of a chart, with the kind of scale that fits its first value. */
function axis(array $rows, string $name): array
{
    $value = null;
    foreach ($rows as $row) {
        if (($value = ((array) $row)[$name] ?? null) !== null) {
            break;
        }
    }
    $type = match (true) {
        \is_int($value), \is_float($value) => 'quantitative',
        $value instanceof \DateTimeInterface, \is_string($value) && preg_match('/^\d{4}-\d\d(-\d\d([T ]\d\d:\d\d.*)?)?$/', $value) => 'temporal',
        default => 'nominal',
    };
    return ['field' => $name, 'type' => $type];
}

function show(string $type, array $data, ?string $id = null): void
{
    $data['text/plain'] = Dump::cut($data['text/plain'] ?? '', 1 << 20);
    $content = ['data' => $data, 'metadata' => new \stdClass()];
    Kernel::get()->output->message($type, $id === null ? $content : $content + ['transient' => ['display_id' => $id]]);
}

// Calls that are inserted into cells: see Source.

function begin(): void
{
    Kernel::get()->engine->begin();
}

function renew(string $table, string $name, int $block): void
{
    Kernel::get()->source->renew($table, $name, $block);
}
