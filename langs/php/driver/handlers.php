<?php
namespace Sandgate;

/** The user's error handlers. Without one, a handler of the driver prints errors. */
final class ErrorHandlers
{
    /** PHP's own functions. */
    private \Closure $set;
    private \Closure $restore;
    private int $depth = 0; // handlers that restore_error_handler can remove

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
        $set = $this->set;
        if ($handler === null) {
            [$handler, $levels] = [$this->own, E_ALL];
        } elseif ($class !== null && !(new \ReflectionClass($class))->isInternal()) {
            $set = \Closure::bind(static fn (...$values) => $set(...$values), null, $class);
        }
        $before = $set($handler, $levels);
        $this->depth++;
        return $before === $this->own ? null : $before;
    }

    public function restore(): void
    {
        if ($this->depth > 0) {
            $this->depth--;
            ($this->restore)();
        }
    }
}
