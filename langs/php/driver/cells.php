<?php
namespace Sandgate;

/** The cells' files: cell://3 is the cell that is shown as [3]. */
final class Cells
{
    public const SCHEME = 'cell://';

    /** Characters of old cells that are kept, for tracebacks. */
    private const KEEP = 4 << 20;

    /** @var array<string, string> the user's text, by name */
    private static array $texts = [];
    private static array $file = ['', '']; // name and text of the file to include
    private static int $size = 0;

    public mixed $context;
    private string $text;
    private int $at = 0;

    /** Registers the file of a cell; returns the path to include. */
    public static function add(string $name, string $text, string $file): string
    {
        self::$size += \strlen($text) - \strlen(self::$texts[$name] ?? '');
        unset(self::$texts[$name]);
        self::$texts[$name] = $text;
        while (self::$size > self::KEEP && \count(self::$texts) > 1) {
            self::$size -= \strlen(reset(self::$texts));
            unset(self::$texts[key(self::$texts)]);
        }
        self::$file = [$name, $file];
        return self::SCHEME . $name;
    }

    /** Returns a line of a cell in its original form, or null. */
    public static function line(string $file, int $line): ?string
    {
        $text = self::$texts[substr($file, \strlen(self::SCHEME))] ?? null;
        return $text === null ? null : explode("\n", $text, $line + 1)[$line - 1] ?? null;
    }

    public function stream_open(string $path): bool
    {
        if (substr($path, \strlen(self::SCHEME)) !== self::$file[0]) {
            return false;
        }
        $this->text = self::$file[1];
        return true;
    }

    public function stream_read(int $n): string
    {
        $part = substr($this->text, $this->at, $n);
        $this->at += \strlen($part);
        return $part;
    }

    public function stream_eof(): bool
    {
        return $this->at >= \strlen($this->text);
    }

    public function stream_stat(): array
    {
        return ['size' => \strlen($this->text)];
    }

    /** PHP looks for an included file beside the cell. There are no files. */
    public function url_stat(): array|false
    {
        return false;
    }

    public function stream_set_option(): bool
    {
        return false;
    }

    public function stream_close(): void {}
}
