<?php
namespace Sandgate;

/** After a restore: renews everything that must differ between sandboxes of one snapshot. */
final class Reseed
{
    /**
     * The share of the sandbox's memory that one process may use, so that the kernel and its
     * savegame fit.
     */
    private const MEMORY = 0.2;

    public function apply(string $seed, array $env): void
    {
        $bytes = ctype_xdigit($seed) && \strlen($seed) % 2 === 0 && $seed !== '' ? hex2bin($seed) : random_bytes(32);
        // random_int() and random_bytes() ask the system. This seeds the others: mt_rand(), rand(),
        // shuffle(), array_rand().
        mt_srand(unpack('P', hash('sha256', $bytes, true))[1]);
        foreach ($env as $name => $value) {
            if (!\is_string($name) || $name === '' || str_contains($name, '=') || !\is_scalar($value)) {
                continue;
            }
            putenv("$name=$value");
            $_SERVER[$name] = (string) $value;
            if (isset($_ENV[$name]) || str_contains((string) \ini_get('variables_order'), 'E')) {
                $_ENV[$name] = (string) $value;
            }
        }
        if (isset($env['TZ']) && @timezone_open((string) $env['TZ']) !== false) {
            date_default_timezone_set((string) $env['TZ']);
        }
        self::limitMemory();
    }

    /**
     * PHP's own limit causes an error that can be reported; the sandbox's limit ends the sandbox.
     */
    public static function limitMemory(): void
    {
        if (preg_match('/^MemTotal:\s+(\d+)/', (string) @file_get_contents('/proc/meminfo'), $found)) {
            ini_set('memory_limit', (string) max(128 << 20, (int) ($found[1] * 1024 * self::MEMORY)));
        }
    }
}
