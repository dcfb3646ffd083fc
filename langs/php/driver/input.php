<?php
namespace Sandgate;

/** Thrown where a cell requests input that is not allowed. */
final class NoInput extends \Error {}

/** Standard input of a cell: each line is an input request. */
final class Input
{
    private bool $ended = false;

    public function __construct(private Kernel $kernel, private Wire $wire, private Interrupts $interrupts) {}

    /** Begins a new cell: an end of input applies to one cell only. */
    public function begin(): void
    {
        if ($this->ended) {
            $this->ended = false;
            $this->kernel->standardStreams();
        }
    }

    /** Returns a line without its end, or false at the end of input. */
    public function ask(string $prompt, bool $password): string|false
    {
        if ($this->kernel->isFork()) {
            return false;
        }
        if ($this->kernel->noInput()) {
            throw new NoInput('the cell asks for input, and there is nobody to give it');
        }
        if ($this->ended) {
            return false;
        }
        $this->kernel->output->message('input_request', ['prompt' => $prompt, 'password' => $password]);
        $this->interrupts->enter();
        try {
            while (true) {
                $this->interrupts->check();
                if (!$this->wire->waits(-1)) {
                    continue; // a signal
                }
                $request = $this->wire->receive();
                if (($request['op'] ?? '') !== 'input') {
                    $this->kernel->meanwhile($request);
                    continue;
                }
                if (!empty($request['eof'])) {
                    $this->ended = true;
                    return false;
                }
                return (string) ($request['value'] ?? '');
            }
        } finally {
            $this->interrupts->leave();
        }
    }
}

/** The streams sandgate://stdin and sandgate://stderr, which STDIN and STDERR use. */
final class StandardStream
{
    public mixed $context;
    private bool $input;
    private bool $ended = false;
    private bool $begun = false;

    public function stream_open(string $path): bool
    {
        $this->input = str_ends_with($path, 'stdin');
        return true;
    }

    public function stream_read(int $n): string
    {
        $line = $this->input ? Kernel::get()->input->ask('', false) : false;
        $this->ended = $line === false;
        $this->begun = true;
        return $line === false ? '' : "$line\n";
    }

    public function stream_eof(): bool
    {
        return $this->ended;
    }

    public function stream_write(string $text): int
    {
        Kernel::get()->output->stderr($text);
        return \strlen($text);
    }

    /** Seeks to the beginning, if that is the present position: SplFileObject calls it. */
    public function stream_seek(int $offset, int $whence): bool
    {
        return $offset === 0 && $whence === SEEK_SET && !$this->begun;
    }

    public function stream_tell(): int
    {
        return 0;
    }

    /** Called by stream_isatty() and stream_select(). */
    public function stream_cast(): mixed
    {
        return $this->input ? false : fopen('php://stderr', 'w');
    }

    public function stream_stat(): array
    {
        return ['mode' => 0o010600]; // a pipe
    }

    public function stream_flush(): bool
    {
        return true;
    }

    public function stream_set_option(): bool
    {
        return false;
    }

    public function stream_metadata(): bool
    {
        return true;
    }

    public function url_stat(): array
    {
        return $this->stream_stat();
    }

    public function stream_close(): void {}
}
