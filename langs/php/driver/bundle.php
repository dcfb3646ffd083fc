<?php
namespace Sandgate;

/** A value in the forms in which a client can show it. */
final class Bundle
{
    /** Methods with which an object offers a form, as in notebooks. */
    private const METHODS = [
        '_repr_html_' => 'text/html', '_repr_markdown_' => 'text/markdown', '_repr_latex_' => 'text/latex',
        '_repr_svg_' => 'image/svg+xml', '_repr_json_' => 'application/json',
        '_repr_png_' => 'image/png', '_repr_jpeg_' => 'image/jpeg',
    ];

    private const MAX_ROWS = 100;    // rows of a table; the middle is left out
    private const MAX_COLUMNS = 50;

    public function __construct(public readonly array $data) {}

    /** Returns MIME type => content. Runs the object's own methods. */
    public static function of(mixed $value): array
    {
        if ($value instanceof self) {
            return $value->data + ['text/plain' => '<' . array_key_first($value->data) . '>'];
        }
        if (!\is_object($value)) {
            $data = ['text/plain' => Dump::text($value)];
            return \is_array($value) && self::isTable($value) ? $data + ['text/html' => self::table($value)] : $data;
        }
        $data = [];
        if ($value instanceof \GdImage) {
            $data['image/png'] = base64_encode(self::png($value));
        }
        if ($value instanceof \Imagick && $value->getNumberImages() > 0) {
            $copy = clone $value;
            $copy->setImageFormat('png');
            $data['image/png'] = base64_encode($copy->getImageBlob());
        }
        if (method_exists($value, '_repr_mimebundle_')) {
            $data += (array) $value->_repr_mimebundle_();
        }
        foreach (self::METHODS as $method => $type) {
            if (!isset($data[$type]) && method_exists($value, $method) && ($form = $value->$method()) !== null) {
                $data[$type] = $type === 'application/json' ? Json::plain($form)
                    : ($type === 'image/png' || $type === 'image/jpeg' ? base64_encode((string) $form) : (string) $form);
            }
        }
        return $data + ['text/plain' => Dump::text($value)];
    }

    /**
     * Returns whether the value has rows with the same columns, and each element fits a table cell.
     */
    private static function isTable(array $rows): bool
    {
        if (!array_is_list($rows) || !isset($rows[0]) || !\is_array($rows[0]) || $rows[0] === [] || array_is_list($rows[0])) {
            return false;
        }
        $columns = array_keys($rows[0]);
        foreach (\array_slice($rows, 0, self::MAX_ROWS) as $row) {
            if (!\is_array($row) || array_keys($row) !== $columns) {
                return false;
            }
            foreach ($row as $item) {
                if (\is_array($item) || \is_object($item) && !$item instanceof \UnitEnum && !$item instanceof \DateTimeInterface) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Returns rows as HTML. They may have different columns. */
    public static function table(iterable $rows, ?array $columns = null): string
    {
        $rows = \is_array($rows) ? $rows : iterator_to_array($rows, false);
        $rows = array_map(static fn ($row) => \is_array($row) ? $row : ($row instanceof \Traversable ? iterator_to_array($row) : (\is_object($row) ? get_object_vars($row) : [$row])), $rows);
        $all = [];
        foreach ($rows as $row) {
            $all += array_fill_keys(array_keys($row), true);
        }
        $columns = \array_slice($columns ?? array_keys($all), 0, self::MAX_COLUMNS);
        $named = $columns !== [] && !array_is_list($columns) || array_filter($columns, is_string(...));
        $html = '<table>';
        if ($named) {
            $html .= "\n<thead><tr>" . implode('', array_map(static fn ($c) => '<th>' . self::escape((string) $c) . '</th>', $columns)) . '</tr></thead>';
        }
        $html .= "\n<tbody>";
        $count = \count($rows);
        $i = 0;
        foreach ($rows as $row) {
            $i++;
            if ($count > self::MAX_ROWS && $i > self::MAX_ROWS / 2 && $i <= $count - self::MAX_ROWS / 2) {
                if ($i === self::MAX_ROWS / 2 + 1) {
                    $html .= "\n<tr>" . str_repeat('<td>…</td>', \count($columns)) . '</tr>';
                }
                continue;
            }
            $html .= "\n<tr>";
            foreach ($columns as $column) {
                $html .= self::cell($row[$column] ?? null, \array_key_exists($column, $row));
            }
            $html .= '</tr>';
        }
        $html .= "\n</tbody></table>";
        return $count > self::MAX_ROWS ? "$html\n<p>$count rows</p>" : $html;
    }

    private static function cell(mixed $value, bool $there): string
    {
        if (\is_int($value) || \is_float($value)) {
            return '<td style="text-align: right">' . Dump::line($value) . '</td>';
        }
        $text = match (true) {
            !$there => '',
            \is_string($value) => Dump::cut($value, 1000),
            $value instanceof \DateTimeInterface => $value->format('Y-m-d H:i:s'),
            $value instanceof \BackedEnum => (string) $value->value,
            default => Dump::line($value),
        };
        return '<td>' . self::escape($text) . '</td>';
    }

    private static function escape(string $text): string
    {
        return htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5, 'UTF-8');
    }

    /** Returns rows as text, in columns. */
    public static function plainTable(array $rows): string
    {
        $rows = array_map(static fn ($row) => \is_array($row) ? $row : (\is_object($row) ? get_object_vars($row) : [$row]), $rows);
        $columns = [];
        foreach ($rows as $row) {
            $columns += array_fill_keys(array_keys($row), true);
        }
        $columns = \array_slice(array_keys($columns), 0, self::MAX_COLUMNS);
        $count = \count($rows);
        $text = [array_map(strval(...), $columns)];
        foreach (\array_slice($rows, 0, self::MAX_ROWS) as $row) {
            $text[] = array_map(static fn ($c) => \is_string($row[$c] ?? null) ? Dump::cut(strtr($row[$c], "\n\t", '  '), 60) : (\array_key_exists($c, $row) ? Dump::line($row[$c], 60) : ''), $columns);
        }
        $widths = array_map(static fn ($i) => max(array_map(mb_strwidth(...), array_column($text, $i))), array_keys($columns));
        $lines = array_map(static fn ($line) => rtrim(implode('  ', array_map(static fn ($item, $width) => $item . str_repeat(' ', $width - mb_strwidth($item)), $line, $widths))), $text);
        return implode("\n", $lines) . ($count > self::MAX_ROWS ? "\n… ($count rows)" : '');
    }

    public static function png(\GdImage $image): string
    {
        ob_start();
        imagepng($image);
        return (string) ob_get_clean();
    }
}
