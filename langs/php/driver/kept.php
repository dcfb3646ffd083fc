<?php
namespace Sandgate;

/**
 * Variables that outlive their kernel, in a file: requests keep and restore. The file has the text of
 * serialize of all of them, so that references and objects which they share stay shared. Functions,
 * classes and objects of such classes are lost.
 */
final class Kept
{
    private const NAMES = 20;
    private const NAME = 60; // characters
    private const PARTS = 2_000_000; // values in all variables
    private const BYTES = 64 << 20; // PHP has the text in memory twice
    private const LOOKS = 4096; // values between two looks at the clock

    private int $parts = 0;
    private int $room = 0;
    private float $end = 0;

    /** @var array<string, true> names of the driver and of its libraries */
    private array $given = [];

    public function __construct()
    {
        $this->given = array_fill_keys($this->definitions(), true);
        foreach (array_keys(get_defined_constants(true)['user'] ?? []) as $name) {
            $this->given["const $name"] = true;
        }
    }

    /** @return list<string> */
    private function definitions(): array
    {
        $made = [...get_declared_classes(), ...get_declared_interfaces(), ...get_declared_traits()];
        $user = array_filter($made, fn ($name) => (new \ReflectionClass($name))->isUserDefined());
        return [...get_defined_functions()['user'], ...array_values($user)];
    }

    /** @return array<string, mixed> */
    public function keep(array $request): array
    {
        [$file, $bytes, $seconds] = $this->wanted($request);
        $this->parts = 0;
        $this->end = microtime(true) + $seconds / 2;
        $kept = $sizes = [];
        $lost = array_values(array_filter($this->definitions(), fn ($name) => !isset($this->given[$name]) && stripos($name, 'Sandgate\\') !== 0));
        foreach (array_keys($GLOBALS) as $name) {
            if (!Variables::theirs((string) $name)) {
                continue;
            }
            $this->room = $bytes;
            if ($this->whole($GLOBALS[$name])) {
                $sizes[$name] = $bytes - $this->room;
            } else {
                $lost[] = (string) $name;
            }
        }
        asort($sizes);
        foreach ($sizes as $name => $size) {
            if ($size <= $bytes) {
                $bytes -= $size;
                $kept[$name] = &$GLOBALS[$name];
            } else {
                $lost[] = (string) $name;
            }
        }
        $this->room = max($bytes, 0);
        $constants = array_filter(get_defined_constants(true)['user'] ?? [], fn ($value, $name) => stripos($name, 'Sandgate\\') !== 0
            && !isset($this->given["const $name"]) && $this->whole($value), ARRAY_FILTER_USE_BOTH);
        $names = array_map('strval', [...array_keys($kept), ...array_keys($constants)]);
        if ($names !== []) {
            $this->write($file, serialize(['folder' => (string) getcwd(), 'constants' => $constants, 'values' => $kept]));
        }
        return self::said($names, $lost) + ['written' => $names !== []];
    }

    /** @return array{string, int, float} */
    private function wanted(array $request): array
    {
        $wanted = $request['keep'] ?? null;
        if (!\is_array($wanted) || !\is_string($wanted['file'] ?? null)) {
            throw new \ValueError('the request has no file');
        }
        return [$wanted['file'], min((int) ($wanted['bytes'] ?? 0) ?: self::BYTES, self::BYTES), (float) ($wanted['seconds'] ?? 30)];
    }

    /** Reports whether serialize has all of a value without running code of the user. */
    private function whole(mixed &$value): bool
    {
        $seen = new \SplObjectStorage();
        $left = [&$value];
        while ($left !== []) {
            $next = array_pop($left);
            if (++$this->parts > self::PARTS || ($this->parts % self::LOOKS === 0 && microtime(true) > $this->end)) {
                return false;
            }
            $this->room -= 16 + (\is_string($next) ? \strlen($next) : 0);
            if ($this->room < 0 || \is_resource($next) || get_debug_type($next) === 'resource (closed)') {
                return false;
            }
            if (\is_object($next)) {
                if ($seen->contains($next)) {
                    continue;
                }
                $seen->attach($next);
                if ((new \ReflectionClass($next))->isUserDefined()) {
                    return false;
                }
                $next = (array) $next;
            }
            if (\is_array($next)) {
                foreach ($next as $key => $part) {
                    $this->room -= \strlen((string) $key);
                    $left[] = $part;
                    if (\count($left) > self::PARTS) { // an array that contains itself
                        return false;
                    }
                }
            }
        }
        try {
            $this->room -= \strlen(serialize($value));
            return $this->room >= 0;
        } catch (\Throwable) {
            return false; // such as a generator
        }
    }

    private function write(string $file, string $text): void
    {
        $folder = \dirname($file);
        if (!is_dir($folder) && !@mkdir($folder, 0o700, true)) {
            throw new \RuntimeException("cannot make $folder");
        }
        @unlink("$file.part");
        $mask = umask(0o077);
        $written = @file_put_contents("$file.part", $text);
        umask($mask);
        if ($written !== \strlen($text) || !rename("$file.part", $file)) {
            @unlink("$file.part");
            throw new \RuntimeException("cannot write $file");
        }
    }

    /** @return array<string, mixed> */
    public function restore(array $request): array
    {
        [$file] = $this->wanted($request);
        $text = @file_get_contents($file);
        if ($text === false) {
            throw new \RuntimeException("cannot read $file");
        }
        unlink($file);
        $state = @unserialize($text);
        if (!\is_array($state) || !\is_array($state['values'] ?? null) || !\is_array($state['constants'] ?? null)) {
            throw new \RuntimeException('the file of the variables is not complete');
        }
        @chdir((string) ($state['folder'] ?? '.'));
        $kept = $lost = [];
        foreach (array_keys($state['values']) as $name) {
            if (Variables::theirs((string) $name)) {
                $GLOBALS[$name] = &$state['values'][$name];
                $kept[] = (string) $name;
            }
        }
        foreach ($state['constants'] as $name => $value) {
            if (@\define($name, $value)) {
                $kept[] = $name;
            } else {
                $lost[] = $name;
            }
        }
        return self::said($kept, $lost);
    }

    /**
     * @param list<string> $kept
     * @param list<string> $lost
     * @return array<string, mixed>
     */
    private static function said(array $kept, array $lost): array
    {
        $first = fn (array $names) => array_map(fn ($name) => mb_substr(mb_scrub($name), 0, self::NAME), \array_slice($names, 0, self::NAMES));
        return ['kept' => $first($kept), 'kept_count' => \count($kept), 'lost' => $first($lost), 'lost_count' => \count($lost)];
    }
}
