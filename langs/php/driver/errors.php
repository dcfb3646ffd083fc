<?php
namespace Sandgate;

/** Errors as users see them: with the cells' lines, and without the driver's. */
final class Errors
{
    private const MAX_VALUE = 64 << 10;   // characters
    private const MAX_FRAMES = 100;       // frames of one exception; the middle is left out
    private const CONTEXT = 2;            // lines before and after
    private const MAX_PREVIOUS = 10;

    /** @return array{ename: string, evalue: string, traceback: list<string>} */
    public static function of(\Throwable $e): array
    {
        if ($e instanceof CompileError) {
            return self::compile($e);
        }
        $lines = [];
        for ($one = $e, $n = 0; $one !== null && $n < self::MAX_PREVIOUS; $one = $one->getPrevious(), $n++) {
            array_push($lines, ...($n > 0 ? ['', 'Previous:'] : []), ...self::one($one));
        }
        return ['ename' => self::name($e), 'evalue' => self::message($e->getMessage()), 'traceback' => $lines];
    }

    /** Returns the error that PHP ended with. */
    public static function fatal(string $message, string $file, int $line): array
    {
        // The message of an uncaught exception contains its trace.
        $first = self::message(strstr("$message\n", "\n", true));
        return ['ename' => 'FatalError', 'evalue' => $first, 'traceback' => ["FatalError: $first" . ($file === '' ? '' : ' in ' . self::place($file, $line)), ...self::excerpt($file, $line)]];
    }

    /** Returns a file and a line, as tracebacks name them. */
    public static function place(string $file, int $line): string
    {
        $file = self::file($file);
        return str_starts_with($file, 'cell ') ? "$file, line $line" : "$file:$line";
    }

    /** Returns a file or a text with file names: cells are named by their number. */
    public static function file(string $text): string
    {
        return str_replace(Cells::SCHEME, 'cell ', $text);
    }

    private static function message(string $text): string
    {
        return Dump::cut(self::file($text), self::MAX_VALUE);
    }

    private static function name(\Throwable $e): string
    {
        return $e instanceof Interrupted ? 'Interrupted' : ($e instanceof NoInput ? 'NoInput' : Dump::className($e));
    }

    private static function compile(CompileError $e): array
    {
        $message = $e->getMessage();
        $lines = ["$e->kind: $message in " . self::place(Kernel::get()->file(), $e->at)];
        array_push($lines, ...self::excerpt(Kernel::get()->file(), $e->at, $e->column));
        return ['ename' => $e->kind, 'evalue' => "$message, line $e->at", 'traceback' => $lines];
    }

    private static function one(\Throwable $e): array
    {
        $trace = $e->getTrace();
        // If the driver threw it, the position is that of the user's call.
        [$file, $line] = [$e->getFile(), $e->getLine()];
        while (self::isOurs($file) && $trace !== []) {
            $call = array_shift($trace);
            [$file, $line] = [$call['file'] ?? '', $call['line'] ?? 0];
        }
        $file = self::isOurs($file) ? '' : $file;
        $message = self::message($e->getMessage());
        $lines = [self::name($e) . ($message === '' ? '' : ": $message") . ($file === '' ? '' : ' in ' . self::place($file, $line))];
        array_push($lines, ...self::excerpt($file, $line));
        $frames = [];
        foreach ($trace as $call) {
            $from = $call['file'] ?? '';
            if ($from !== '' && self::isOurs($from) || str_starts_with($call['class'] ?? '', 'Sandgate\\') || str_starts_with($call['function'], 'Sandgate\\')) {
                continue;
            }
            $name = ($call['class'] ?? '') . ($call['type'] ?? '') . $call['function'];
            $name = preg_replace(['~@anonymous[^-:]*~', '~\{closure:cell://~'], ['@anonymous', '{closure:cell '], str_replace("\0", '', $name));
            $arguments = array_map(static fn ($a) => Dump::line($a, 30), $call['args'] ?? []);
            $frames[] = '#' . \count($frames) . ' ' . ($from === '' || $from === Cells::SCHEME . 'end' ? '[internal]' : self::place($from, $call['line'] ?? 0)) . ": $name(" . implode(', ', $arguments) . ')';
        }
        $count = \count($frames);
        if ($count > self::MAX_FRAMES) {
            array_splice($frames, self::MAX_FRAMES / 2, $count - self::MAX_FRAMES, ['… ' . ($count - self::MAX_FRAMES) . ' more …']);
        }
        return $count === 0 ? $lines : [...$lines, 'Stack trace:', ...$frames];
    }

    private static function isOurs(string $file): bool
    {
        return str_starts_with($file, __DIR__ . '/') || $file === '';
    }

    /** Returns the lines around one, which is marked. */
    private static function excerpt(string $file, int $line, int $column = 0): array
    {
        $lines = [];
        if (!str_starts_with($file, Cells::SCHEME)) {
            return $lines;
        }
        $width = \strlen((string) ($line + self::CONTEXT));
        for ($i = max(1, $line - self::CONTEXT); $i <= $line + self::CONTEXT; $i++) {
            $text = Cells::line($file, $i);
            if ($text === null) {
                break;
            }
            $lines[] = sprintf('  %s %' . $width . 'd | %s', $i === $line ? '>' : ' ', $i, Dump::cut(rtrim($text), 200));
            if ($i === $line && $column > 0 && $column < 200) {
                $lines[] = str_repeat(' ', $width + 7) . preg_replace('/[^\t]/u', ' ', mb_scrub(substr($text, 0, $column - 1))) . '^';
            }
        }
        return $lines;
    }
}
