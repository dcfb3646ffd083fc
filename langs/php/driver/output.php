<?php
namespace Sandgate;

/**
 * Messages and standard error. What echo prints does not come by here: it goes to descriptor 1, like that of C code
 * and of child processes, and so all of it stays in order, streams, and costs what it costs on a command line.
 */
final class Output
{
    private const MAX_FRAME = 1 << 20;

    /** Of the cell at work, or of the last one. */
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

    /** Sends a message now, in its place among the output. */
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

    /** A message as a frame, to be written as one of a cell's last. */
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
        // The text stays: it says what the thing was.
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
        // PHP's own handler would say it again, unless errors are not displayed; it makes error_get_last() true.
        return $shown !== '';
    }
}
