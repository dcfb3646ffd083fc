<?php
namespace Sandgate;

/**
 * The user's error handlers. A handler of the driver prints the errors that the user's handler leaves
 * to PHP: it returns false, or was set for other levels.
 */
final class ErrorHandlers
{
    /** PHP's own functions. */
    private \Closure $set;
    private \Closure $restore;
    /** The handlers that restore_error_handler can remove; null for the driver's. */
    private array $handlers = [];

    public function __construct(private \Closure $own)
    {
        $this->set = set_error_handler(...);
        $this->restore = restore_error_handler(...);
        ($this->set)($own);
    }

    /**
     * Sets a handler, null for the driver's, and returns the one before, null if that was the
     * driver's. PHP checks whether the class that called may call the handler.
     */
    public function set(mixed $handler, int $levels, ?string $class): mixed
    {
        $called = $this->own;
        if ($handler !== null) {
            [$set, $close] = [$this->set, static fn ($callable) => \Closure::fromCallable($callable)];
            if ($class !== null && !(new \ReflectionClass($class))->isInternal()) {
                $set = \Closure::bind(static fn (...$values) => $set(...$values), null, $class);
                $close = \Closure::bind($close, null, $class);
            }
            $set($handler, $levels); // throws PHP's own error if it is not a callable
            ($this->restore)();
            $called = $this->before($close($handler), $levels);
        }
        $before = end($this->handlers) ?: null;
        ($this->set)($called);
        $this->handlers[] = $handler;
        return $before;
    }

    public function restore(): void
    {
        if ($this->handlers !== []) {
            array_pop($this->handlers);
            ($this->restore)();
        }
    }

    /** Returns a handler that calls the user's one before the driver's. */
    private function before(\Closure $handler, int $levels): \Closure
    {
        $own = $this->own;
        return static function (int $level, string $message, string $file, int $line) use ($own, $handler, $levels): bool {
            try {
                return $level & $levels && $handler($level, $message, $file, $line) !== false || $own($level, $message, $file, $line);
            } catch (\Throwable $e) {
                self::hide($e);
                throw $e;
            }
        };
    }

    /** Removes the driver's handler from a trace: the user's one was called where the error is. */
    private static function hide(\Throwable $e): void
    {
        $trace = $e->getTrace();
        foreach ($trace as $i => $call) {
            if (($call['file'] ?? '') === __FILE__ && ($trace[$i + 1]['class'] ?? '') === self::class) {
                $place = array_intersect_key($trace[$i + 1], ['file' => true, 'line' => true]);
                array_splice($trace, $i, 2, [$place + array_diff_key($call, ['file' => true, 'line' => true])]);
                $class = $e instanceof \Exception ? \Exception::class : \Error::class;
                (new \ReflectionProperty($class, 'trace'))->setValue($e, $trace);
                return;
            }
        }
    }
}
