<?php
namespace Sandgate;

use Sandgate\PhpParser\Error as SyntaxError;
use Sandgate\PhpParser\Node;
use Sandgate\PhpParser\Node\{Expr, Scalar, Stmt};
use Sandgate\PhpParser\{Parser, ParserFactory};

/** A cell that cannot be compiled. */
final class CompileError extends \Error
{
    public function __construct(string $message, public readonly int $at, public readonly int $column = 0, public readonly string $kind = 'CompileError')
    {
        parent::__construct($message);
    }
}

/** The value of a cell, to distinguish it from include's own 1. */
final class Value
{
    public function __construct(public readonly mixed $value) {}
}

/**
 * Makes a file from a cell. The text keeps its place, so that line numbers are the cell's. Changes
 * are inserted:
 *
 *   the last expression is returned, and so is the value of a return outside of functions
 *   a call that hides the driver's frames, and imports (use) of earlier cells that the cell uses,
 *   stand before its first statement
 *   __DIR__ and __FILE__ refer to the working directory
 *   a declaration in a block replaces the one of an earlier cell when it is reached
 *   so do the declarations of a file that the cell includes, and of a text that it evaluates
 *   php://stdin and php://stderr, opened by name, are those of the cell
 *
 * Names that the cell declares at its top level are removed from the engine's tables.
 */
final class Source
{
    /**
     * The driver's functions that a cell calls without an import, unless it or another cell has
     * declared the name.
     */
    private const HELPERS = ['display', 'update_display', 'clear_output', 'html', 'markdown', 'latex', 'json', 'svg',
        'image', 'table', 'chart', 'password'];

    private const OPENERS = ['fopen', 'file_get_contents', 'file', 'file_put_contents', 'readfile'];

    private const PRINTERS = ['printf', 'vprintf', 'fprintf', 'vfprintf', 'fwrite', 'fputs', 'fputcsv', 'readfile', 'fpassthru'];

    private Parser $parser;
    /**
     * @var array<string, string> imports of earlier cells: kind and lower-case alias => the text
     *   after "use"
     */
    private array $imports = [];

    /** The number of declarations in blocks, and those that have been reached. */
    private int $blocks = 0;
    /** @var array<int, true> */
    private array $bound = [];

    private string $text;
    /** @var list<array{int, int, string}> position, length and replacement */
    private array $edits;
    private array $used;
    private array $declared;
    /** @var string[] names that the cell passes to define() */
    private array $defined;

    public function __construct(private Engine $engine)
    {
        $this->parser = ParserLoader::with(static fn () => (new ParserFactory())->createForHostVersion());
    }

    /** Returns whether the cell is a program or a page: it has its own tags. */
    public static function isTagged(string $code): bool
    {
        return (bool) preg_match('/^(\s|#![^\n]*\n)*<\?(php\b|=)/i', $code);
    }

    /**
     * Returns whether a cell may end the process: once PHP has begun to compile an invalid
     * declaration, it cannot undo it.
     */
    public static function isRisky(string $code): bool
    {
        return (bool) preg_match('/\b(class|interface|trait|enum|include|require|include_once|require_once|eval|FFI)\b/i', $code);
    }

    /** Returns the file for a cell. */
    public function prepare(string $code): string
    {
        return ParserLoader::with(fn () => $this->edited($code));
    }

    private function edited(string $code): string
    {
        [$ast, $tagged] = $this->parse($code);
        [$this->edits, $this->used, $this->declared, $this->defined] = [[], [], [], []];
        $this->walk($ast, false, true);
        $this->redeclare();
        if (!$tagged) {
            $this->returnLast($ast);
        }
        $this->import($ast);
        // From the end. At one position, replacements come first, and then insertions, the latest
        // first.
        usort($this->edits, fn ($a, $b) => $b[0] <=> $a[0] ?: $b[1] <=> $a[1]);
        foreach ($this->edits as [$position, $length, $text]) {
            $this->text = substr_replace($this->text, $text, $position, $length);
        }
        return $this->text;
    }

    /**
     * A declaration in a block has been reached. PHP binds a class of a block once: if it is reached
     * again, the class must be there, for PHP's own error.
     */
    public function renew(string $table, string $name, int $block): void
    {
        if ($table === 'class' && isset($this->bound[$block])) {
            return;
        }
        $this->bound[$block] = true;
        if ($this->forget($table, $name, 0)) {
            $this->engine->refresh();
        }
    }

    /** Returns complete, incomplete or invalid. */
    public function isComplete(string $code): string
    {
        try {
            ParserLoader::with(fn () => $this->parse($code));
            return 'complete';
        } catch (CompileError $e) {
            return $e->kind === 'EOF' || preg_match('/unexpected EOF|Unterminated comment|unexpected .*T_ENCAPSED_AND_WHITESPACE/', $e->getMessage())
                || $this->isOpen($code) ? 'incomplete' : 'invalid';
        }
    }

    /** Returns whether a string, a comment or a here document has no end. */
    private function isOpen(string $code): bool
    {
        $open = false;
        foreach (\PhpToken::tokenize(self::isTagged($code) ? $code : "<?php $code") as $token) {
            match ($token->id) {
                \T_START_HEREDOC => $open = true,
                \T_END_HEREDOC => $open = false,
                \ord('"'), \ord('`') => $open = !$open,
                default => null,
            };
        }
        return $open || (bool) preg_match("/^'/", $token->text ?? '') && !preg_match("/'\$/", $token->text);
    }

    /** Returns the namespace imports, for completion: alias => name, only of classes. */
    public function classImports(): array
    {
        $found = [];
        foreach ($this->imports as $key => $text) {
            if (str_starts_with($key, 'class ')) {
                $name = preg_split('/\s+as\s+/i', $text);
                $found[$name[1] ?? substr(strrchr('\\' . $name[0], '\\'), 1)] = ltrim($name[0], '\\');
            }
        }
        return $found;
    }

    /** Returns the statements, and whether the cell has tags. */
    private function parse(string $code): array
    {
        if (self::isTagged($code)) {
            // Text before the first tag is not output. Its lines move after the tag, where they
            // remain lines.
            preg_match('/^(\s|#![^\n]*\n)*/', $code, $lead);
            $code = substr($code, \strlen($lead[0]));
            $lines = str_repeat("\n", substr_count($lead[0], "\n"));
            $this->text = $lines === '' ? $code : (preg_match('/^<\?php/i', $code) ? "<?php $lines" . substr($code, 5) : "<?php $lines?>$code");
            return [$this->tree($this->text, 0), true];
        }
        $this->text = "<?php $code";
        try {
            return [$this->tree($this->text, 6), false];
        } catch (CompileError $failure) {
        }
        try { // an expression without a semicolon
            $ended = "$this->text\n;";
            $ast = $this->tree($ended, 6);
            $this->text = $ended;
            return [$ast, false];
        } catch (CompileError) {
        }
        if (preg_match('/<\?(php\b|=)/i', $code)) { // text with tags in it
            try {
                $ast = $this->tree($code, 0);
                $this->text = $code;
                return [$ast, true];
            } catch (CompileError $page) {
                throw ltrim($code)[0] === '<' ? $page : $failure;
            }
        }
        throw $failure;
    }

    private function tree(string $text, int $shift): array
    {
        try {
            return $this->parser->parse($text);
        } catch (SyntaxError $e) {
            $column = $e->hasColumnInfo() ? $e->getStartColumn($text) : 0;
            $line = max(1, $e->getStartLine());
            throw new CompileError($e->getRawMessage(), $line, $column - ($line === 1 ? $shift : 0), 'ParseError');
        }
    }

    private function insert(int $position, string $text): void
    {
        $this->edits[] = [$position, 0, $text];
    }

    private function replace(Node $node, string $text): void
    {
        $at = $node->getStartFilePos();
        $old = substr($this->text, $at, $node->getEndFilePos() + 1 - $at);
        $this->edits[] = [$at, \strlen($old), $text . str_repeat("\n", substr_count($old, "\n"))];
    }

    /**
     * Records the changes below some nodes. $inside is true in functions and classes, $top for
     * statements that declare when the file is compiled.
     */
    private function walk(array $nodes, bool $inside, bool $top, string $namespace = ''): void
    {
        foreach ($nodes as $node) {
            if (\is_array($node)) {
                $this->walk($node, $inside, $top, $namespace);
                continue;
            }
            if (!$node instanceof Node) {
                continue;
            }
            $within = $inside;
            switch (true) {
                case $node instanceof Stmt\Namespace_:
                    $this->walk($node->stmts, $inside, $top, $node->name ? $node->name . '\\' : '');
                    continue 2;
                case $node instanceof Stmt\Function_:
                    $this->declaration('function', $namespace . $node->name, $node, $top);
                    $within = true;
                    break;
                case $node instanceof Stmt\ClassLike:
                    if ($node->name !== null) {
                        $this->declaration('class', $namespace . $node->name, $node, $top);
                    }
                    $within = true;
                    break;
                case $node instanceof Stmt\Const_:
                    foreach ($node->consts as $const) {
                        $this->declared[] = ['constant', $namespace . $const->name, $node->getStartLine()];
                    }
                    break;
                case $node instanceof Node\FunctionLike:
                    $within = true;
                    break;
                case $node instanceof Stmt\Return_ && !$inside && $node->expr !== null:
                    $this->insert($node->expr->getStartFilePos(), 'new \Sandgate\Value(');
                    $this->insert($node->expr->getEndFilePos() + 1, ')');
                    break;
                case $node instanceof Scalar\MagicConst\Dir:
                    $this->replace($node, var_export(getcwd() ?: '/', true));
                    break;
                case $node instanceof Scalar\MagicConst\File:
                    $this->replace($node, var_export((getcwd() ?: '') . '/cell.php', true));
                    break;
                case $node instanceof Expr\FuncCall && $node->name instanceof Node\Name:
                    $this->call($node, strtolower($node->name->toString()), $inside);
                    break;
                case $node instanceof Expr\New_ && $node->class instanceof Node\Name && strtolower($node->class->toString()) === 'splfileobject':
                    $this->stream($node->args[0] ?? null);
                    break;
                case $node instanceof Expr\Include_:
                    $once = \in_array($node->type, [Expr\Include_::TYPE_INCLUDE_ONCE, Expr\Include_::TYPE_REQUIRE_ONCE], true);
                    $this->wrap($node->expr, $once ? '\Sandgate\once(' : '\Sandgate\again(');
                    break;
                case $node instanceof Expr\Eval_:
                    $this->wrap($node->expr, '\Sandgate\evaluated(');
                    break;
                case $node instanceof Node\Name:
                    $this->used[strtolower($node->getFirst())] = true;
                    break;
                case $node instanceof Stmt\Use_:
                case $node instanceof Stmt\GroupUse:
                    continue 2;
            }
            $block = $top && ($node instanceof Stmt\Declare_);
            foreach ($node->getSubNodeNames() as $name) {
                $child = $node->$name;
                if ($child instanceof Node || \is_array($child)) {
                    $this->walk(\is_array($child) ? $child : [$child], $within, $block, $namespace);
                }
            }
        }
    }

    private function wrap(Expr $node, string $call): void
    {
        $this->insert($node->getStartFilePos(), $call);
        $this->insert($node->getEndFilePos() + 1, ')');
    }

    /**
     * A file or a text is about to be executed: its declarations replace those that exist. Text with
     * an error changes nothing.
     */
    public function renewAll(string $text): void
    {
        try {
            $names = ParserLoader::with(fn () => self::declarations($this->parser->parse($text) ?? [], ''));
        } catch (SyntaxError) {
            return;
        }
        $old = false;
        foreach ($names as [$table, $name]) {
            try {
                $old = $this->forget($table, $name, 0) || $old;
            } catch (CompileError) {
                // one of PHP's own, which PHP reports
            }
        }
        if ($old) {
            $this->engine->refresh();
        }
    }

    /**
     * Returns what some statements declare when they are compiled: table and name.
     *
     * @return list<array{string, string}>
     */
    private static function declarations(array $statements, string $namespace): array
    {
        $found = [];
        foreach ($statements as $node) {
            if ($node instanceof Stmt\Namespace_) {
                array_push($found, ...self::declarations($node->stmts, $node->name ? $node->name . '\\' : ''));
            } elseif ($node instanceof Stmt\Declare_) {
                array_push($found, ...self::declarations($node->stmts ?? [], $namespace));
            } elseif ($node instanceof Stmt\Function_) {
                $found[] = ['function', $namespace . $node->name];
            } elseif ($node instanceof Stmt\ClassLike && $node->name !== null) {
                $found[] = ['class', $namespace . $node->name];
            } elseif ($node instanceof Stmt\Const_) {
                foreach ($node->consts as $const) {
                    $found[] = ['constant', $namespace . $const->name];
                }
            }
        }
        return $found;
    }

    private function declaration(string $table, string $name, Node $node, bool $top): void
    {
        if ($top) {
            $this->declared[] = [$table, $name, $node->getStartLine()];
        } else {
            $this->insert($node->getStartFilePos(), "\\Sandgate\\renew('$table', '$name', " . ++$this->blocks . '); ');
        }
    }

    private function call(Expr\FuncCall $node, string $name, bool $inside): void
    {
        if (\in_array($name, self::OPENERS, true)) {
            $this->stream($node->args[0] ?? null);
        } elseif ($name === 'define' && !$inside) {
            $const = ($node->args[0] ?? null) instanceof Node\Arg ? $node->args[0]->value : null;
            if ($const instanceof Scalar\String_) {
                $this->defined[] = $const->value;
            }
        }
    }

    private function stream(mixed $argument): void
    {
        if ($argument instanceof Node\Arg && $argument->value instanceof Scalar\String_) {
            match (strtolower($argument->value->value)) {
                'php://stdin' => $this->replace($argument->value, "'sandgate://stdin'"),
                'php://stderr' => $this->replace($argument->value, "'sandgate://stderr'"),
                default => null,
            };
        }
    }

    /**
     * Removes the names that the cell declares from the tables, once it is clear that it can
     * declare them.
     */
    private function redeclare(): void
    {
        $seen = [];
        foreach ($this->declared as [$table, $name, $line]) {
            $key = self::key($table, $name);
            if (isset($seen[$key])) {
                $what = $table === 'function' ? "$name()" : "$table $name";
                throw new CompileError("Cannot redeclare $what (previously declared in line $seen[$key] of this cell)", $line);
            }
            $seen[$key] = $line;
            $this->refuse($table, $name, $line);
        }
        $old = 0;
        foreach ($this->declared as [$table, $name, $line]) {
            $old += (int) $this->forget($table, $name, $line);
        }
        foreach ($this->defined as $name) { // now, because the value is compiled into the cell
            $old += (int) $this->forget('constant', ltrim($name, '\\'), 0);
        }
        if ($old > 0) {
            $this->engine->refresh();
        }
    }

    /** Rejects names of PHP's own and of its extensions. */
    private function refuse(string $table, string $name, int $line): void
    {
        if ($table === 'function' && \function_exists($name) && (new \ReflectionFunction($name))->isInternal()) {
            throw new CompileError("Cannot redeclare function $name()", $line);
        }
        if ($table === 'class' && self::isClass($name) && (new \ReflectionClass($name))->isInternal()) {
            throw new CompileError("Cannot redeclare class $name", $line);
        }
    }

    private function forget(string $table, string $name, int $line): bool
    {
        $this->refuse($table, $name, $line);
        switch ($table) {
            case 'function':
                if (\function_exists($name)) {
                    $this->engine->forgetFunction($name);
                    return true;
                }
                break;
            case 'class':
                if (self::isClass($name)) {
                    $this->engine->forgetClass($name);
                    return true;
                }
                break;
            case 'constant':
                if (\defined($name) && isset(get_defined_constants(true)['user'][$name])) {
                    $this->engine->forgetConstant($name);
                    return true;
                }
        }
        return false;
    }

    private static function isClass(string $name): bool
    {
        return class_exists($name, false) || interface_exists($name, false) || trait_exists($name, false);
    }

    /**
     * Makes the cell return its last expression if its value is of interest: not for an assignment
     * or an include.
     */
    private function returnLast(array $ast): void
    {
        do {
            while ($ast && end($ast) instanceof Stmt\Nop) {
                array_pop($ast);
            }
            $last = $ast ? end($ast) : null;
            $ast = $last instanceof Stmt\Namespace_ ? $last->stmts : [];
        } while ($last instanceof Stmt\Namespace_);
        if (!$last instanceof Stmt\Expression) {
            return;
        }
        $expr = $last->expr;
        switch (true) {
            case $expr instanceof Expr\Assign:
            case $expr instanceof Expr\AssignOp:
            case $expr instanceof Expr\AssignRef:
            case $expr instanceof Expr\PreInc:
            case $expr instanceof Expr\PreDec:
            case $expr instanceof Expr\PostInc:
            case $expr instanceof Expr\PostDec:
            case $expr instanceof Expr\Exit_:
            case $expr instanceof Expr\Throw_:
            case $expr instanceof Expr\Print_:
            case $expr instanceof Expr\Include_:
            case $expr instanceof Expr\Yield_:
            case $expr instanceof Expr\YieldFrom:
                return;
        }
        $call = $expr instanceof Expr\ErrorSuppress ? $expr->expr : $expr;
        if ($call instanceof Expr\FuncCall && $call->name instanceof Node\Name && self::isQuiet($call)) {
            return;
        }
        $this->insert($expr->getStartFilePos(), 'new \Sandgate\Value(');
        $this->insert($expr->getEndFilePos() + 1, ')');
        $this->insert($last->getStartFilePos(), 'return '); // before parentheses around the expression
    }

    /** Returns whether a function prints, and returns the number of bytes, or always returns true. */
    private static function isQuiet(Expr\FuncCall $call): bool
    {
        $name = strtolower($call->name->toString());
        if ($name === 'print_r') {
            return \count($call->args) === 1;
        }
        if (\in_array($name, self::PRINTERS, true)) {
            return true;
        }
        if (!\function_exists($name)) {
            return false;
        }
        $type = (new \ReflectionFunction($name))->getReturnType();
        return $type instanceof \ReflectionNamedType && $type->getName() === 'true';
    }

    /** Returns the part that two declarations or imports of one name have in common. */
    private static function key(string $table, string $name): string
    {
        return $table === 'constant' || $table === 'const' ? "const $name" : "$table " . strtolower($name);
    }

    /**
     * Puts imports of earlier cells, and of the driver's helpers, where the cell needs them, after the
     * call that hides the driver's frames; stores the cell's own imports.
     */
    private function import(array $ast): void
    {
        $own = [];
        foreach ($ast as $statement) {
            if ($statement instanceof Stmt\Use_ || $statement instanceof Stmt\GroupUse) {
                $prefix = $statement instanceof Stmt\GroupUse ? $statement->prefix . '\\' : '';
                foreach ($statement->uses as $use) {
                    $kind = [Stmt\Use_::TYPE_FUNCTION => 'function ', Stmt\Use_::TYPE_CONSTANT => 'const '][max($statement->type, $use->type)] ?? '';
                    $alias = $use->getAlias()->toString();
                    $key = self::key(trim($kind) ?: 'class', $alias);
                    $own[$key] = $kind . '\\' . $prefix . $use->name . " as $alias";
                }
            }
        }
        $declared = [];
        foreach ($this->declared as [$table, $name]) {
            $declared[self::key($table, $name)] = true;
        }
        $this->imports = array_diff_key($this->imports, $declared);
        $wanted = [];
        foreach (array_diff_key($this->imports, $own) as $key => $text) {
            $alias = strtolower(substr($text, strrpos($text, ' ') + 1));
            if (isset($this->used[$alias])) {
                $wanted[] = $text;
            }
        }
        foreach (self::HELPERS as $name) {
            $key = self::key('function', $name);
            if (isset($this->used[$name]) && !isset(($own + $this->imports + $declared)[$key]) && !\function_exists($name)) {
                $wanted[] = "function \\Sandgate\\$name";
            }
        }
        $this->imports = $own + $this->imports;
        if ($wanted === [] && end($ast) instanceof Stmt\HaltCompiler) {
            return; // the cell may use the position of its data
        }
        $uses = '\Sandgate\begin(); ' . implode('', array_map(fn ($text) => "use $text; ", $wanted));
        $first = null;
        foreach ($ast as $statement) {
            if ($statement instanceof Stmt\Namespace_) {
                if ($statement->stmts) {
                    $this->insert($statement->stmts[0]->getStartFilePos(), $uses);
                }
                return;
            }
            if (!$statement instanceof Stmt\InlineHTML && !$statement instanceof Stmt\Declare_) {
                $first = $statement;
                break;
            }
        }
        if ($first === null) {
            return;
        }
        if (substr($this->text, $first->getStartFilePos(), 3) === '<?=') {
            $this->insert($first->getStartFilePos(), "<?php $uses?>");
        } else {
            $this->insert($first->getStartFilePos(), $uses);
        }
    }
}
