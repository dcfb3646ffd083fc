<?php
namespace Sandgate;

/**
 * Messages and standard error. The output of echo does not pass through here: like that of C code
 * and of child processes, it is written to descriptor 1. So all of it stays in order, streams, and
 * costs as much as on a command line.
 */
final class Output
{
    private const MAX_FRAME = 1 << 20;

    /** The number of the running cell, or of the last one. */
    public int $cell = 0;

    public function __construct(private Wire $wire, private Interrupts $interrupts, private Kernel $kernel) {}

    public function stderr(string $text): void
    {
        if ($this->kernel->isFork()) {
            file_put_contents('php://stderr', $text);
            return;
        }
        $this->interrupts->enter();
        try {
            for ($at = 0, $n = \strlen($text); $at < $n; $at += self::MAX_FRAME) {
                $this->wire->send(Wire::STDERR, $this->cell, substr($text, $at, self::MAX_FRAME));
            }
        } finally {
            $this->interrupts->leave();
        }
    }

    /** Sends a message now, at its place in the output. */
    public function message(string $type, array $content): void
    {
        if ($this->kernel->isFork()) {
            if (isset($content['data']['text/plain'])) {
                echo $content['data']['text/plain'], "\n";
            }
            return;
        }
        $this->interrupts->enter();
        try {
            $this->wire->send(Wire::MESSAGE, $this->cell, $this->body($type, $content));
        } finally {
            $this->interrupts->leave();
        }
    }

    /** Returns a message as a frame, to be written as one of a cell's last. */
    public function frame(string $type, array $content): string
    {
        return Wire::frame(Wire::MESSAGE, $this->cell, $this->body($type, $content));
    }

    private function body(string $type, array $content): string
    {
        $body = Json::encode(['msg_type' => $type, 'content' => $content]);
        if (\strlen($body) <= Wire::MAX_BODY) {
            return $body;
        }
        // The text stays: it describes the value.
        $left = implode(', ', array_diff(array_keys($content['data'] ?? []), ['text/plain']));
        $this->stderr("$left of " . \strlen($body) . ' bytes left out: the limit is ' . Wire::MAX_BODY . " bytes\n");
        $content['data'] = ['text/plain' => Dump::cut($content['data']['text/plain'] ?? "<$left>", 1 << 20)];
        return Json::encode(['msg_type' => $type, 'content' => $content]);
    }

    /** Prints a warning or a notice, as the command line does. For set_error_handler. */
    public function diagnose(int $level, string $message, string $file, int $line): bool
    {
        $this->interrupts->check();
        $shown = \ini_get('display_errors');
        if (!(error_reporting() & $level) || $shown === '0') {
            return false;
        }
        $kind = match ($level) {
            E_WARNING, E_USER_WARNING, E_CORE_WARNING, E_COMPILE_WARNING => 'Warning',
            E_NOTICE, E_USER_NOTICE => 'Notice',
            E_DEPRECATED, E_USER_DEPRECATED => 'Deprecated',
            E_USER_ERROR => 'Fatal error',
            default => 'Error',
        };
        $this->stderr(Errors::file("$kind: $message in $file on line $line\n"));
        if ($level === E_USER_ERROR) {
            exit(255);
        }
        // PHP's own handler would print it again, unless errors are not displayed; it sets
        // error_get_last().
        return $shown !== '';
    }
}
