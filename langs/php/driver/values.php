<?php
namespace Sandgate;

/** Values that the kernels of a session share: Sandgate::put() and Sandgate::get(). */
final class Values
{
    private const FOLDER = '/tmp/.sandgate-values';
    private const MAX_BYTES = 64 << 20; // of a value as JSON

    /** Stores a value for the other kernels of the session. */
    public static function put(string $name, mixed $value): void
    {
        $file = self::file($name);
        if ($value instanceof \Traversable) {
            $value = iterator_to_array($value);
        }
        $value = Json::plain($value);
        $text = Json::encode(self::table($value) ?? ['value' => $value]);
        if (\strlen($text) > self::MAX_BYTES) {
            throw new \LengthException("$name has " . \strlen($text) . ' bytes as JSON; the limit is ' . self::MAX_BYTES);
        }
        if (!is_dir(self::FOLDER)) {
            @mkdir(self::FOLDER, 0700);
        }
        $part = tempnam(self::FOLDER, '.');
        if ($part === false || file_put_contents($part, $text) !== \strlen($text) || !rename($part, $file)) {
            throw new \RuntimeException("$name cannot be written");
        }
    }

    /** Returns what a kernel has stored. Tables and objects become arrays with keys. */
    public static function get(string $name): mixed
    {
        $file = self::file($name);
        if (!is_file($file)) {
            throw new \OutOfBoundsException("no kernel has stored $name; there are: " . (implode(', ', self::names()) ?: 'none'));
        }
        $stored = json_decode(file_get_contents($file), true, 512, JSON_THROW_ON_ERROR);
        if (!isset($stored['columns'])) {
            return $stored['value'];
        }
        return array_map(static fn (array $row): array => array_combine($stored['columns'], $row), $stored['rows']);
    }

    /** Returns the names of the stored values. */
    public static function names(): array
    {
        return array_map(static fn (string $file): string => basename($file, '.json'), glob(self::FOLDER . '/*.json') ?: []);
    }

    private static function file(string $name): string
    {
        if (!preg_match('/^[A-Za-z_][A-Za-z0-9_]{0,63}$/D', $name)) {
            throw new \InvalidArgumentException("'$name' is not a name of letters, digits and _, at most 64 characters");
        }
        return self::FOLDER . "/$name.json";
    }

    /** Returns rows with the same keys as a table, and otherwise null. */
    private static function table(mixed $value): ?array
    {
        if (!\is_array($value) || !array_is_list($value) || $value === []) {
            return null;
        }
        $columns = null;
        $rows = [];
        foreach ($value as $row) {
            $row = \is_object($row) ? get_object_vars($row) : $row;
            if (!\is_array($row) || array_filter($row, static fn ($cell) => $cell !== null && !\is_scalar($cell))) {
                return null;
            }
            $columns ??= array_keys($row);
            if ($columns === [] || $columns !== array_keys($row) || array_is_list($row)) {
                return null;
            }
            $rows[] = array_values($row);
        }
        return ['columns' => $columns, 'rows' => $rows];
    }
}
