<?php
namespace Sandgate;

/** The user's variables, for a list of them. */
final class Variables
{
    private const MAX = 500;
    private const NOT_THEIRS = ['GLOBALS', '_GET', '_POST', '_COOKIE', '_FILES', '_SERVER', '_ENV', '_REQUEST', '_SESSION', 'argv', 'argc', '__error', '__composer_autoload_files'];

    /** @return list<array{name: string, type: string, size: string, value: string}> */
    public static function all(): array
    {
        $list = [];
        foreach ($GLOBALS as $name => $value) {
            if (self::theirs((string) $name)) {
                $list[] = ['name' => (string) $name, 'type' => self::type($value), 'size' => self::size($value), 'value' => Dump::line($value)];
                if (\count($list) === self::MAX) {
                    break;
                }
            }
        }
        return $list;
    }

    /** Reports whether a variable is the user's. */
    public static function theirs(string $name): bool
    {
        return !\in_array($name, self::NOT_THEIRS, true);
    }

    public static function type(mixed $value): string
    {
        return \is_object($value) ? Dump::className($value) : get_debug_type($value);
    }

    private static function size(mixed $value): string
    {
        if (\is_string($value)) {
            return self::bytes(\strlen($value));
        }
        if (\is_array($value)) {
            $count = \count($value);
            $first = $value[0] ?? null;
            $width = \is_array($first) ? \count($first) : 0;
            return array_is_list($value) && $width > 0 && !array_filter(\array_slice($value, 0, 100), fn ($row) => !\is_array($row) || \count($row) !== $width)
                ? "$count × $width" : (string) $count;
        }
        if ($value instanceof \GdImage) {
            return imagesx($value) . ' × ' . imagesy($value);
        }
        return '';
    }

    private static function bytes(int $n): string
    {
        return match (true) {
            $n < 1024 => "$n B",
            $n < 1 << 20 => sprintf('%.1f KiB', $n / 1024),
            default => sprintf('%.1f MiB', $n / (1 << 20)),
        };
    }
}
