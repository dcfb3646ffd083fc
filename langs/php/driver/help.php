<?php
namespace Sandgate;

/**
 * Completion and inspection of the present state. They neither run the user's code nor load a
 * class.
 */
final class Help
{
    private const MAX = 1000;
    private const NAME = '[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*';
    private const KEYWORDS = ['abstract', 'array', 'as', 'break', 'callable', 'case', 'catch', 'class', 'clone', 'const', 'continue', 'declare',
        'default', 'do', 'echo', 'else', 'elseif', 'empty', 'enum', 'extends', 'false', 'final', 'finally', 'fn', 'for', 'foreach', 'function',
        'global', 'if', 'implements', 'include', 'include_once', 'instanceof', 'interface', 'isset', 'list', 'match', 'namespace', 'new', 'null',
        'parent', 'print', 'private', 'protected', 'public', 'readonly', 'require', 'require_once', 'return', 'self', 'static', 'switch', 'throw',
        'trait', 'true', 'try', 'unset', 'use', 'while', 'yield'];
    private const HELPERS = ['display', 'update_display', 'clear_output', 'html', 'markdown', 'latex', 'json', 'svg', 'image', 'table', 'chart', 'password'];

    public function __construct(private Source $source) {}

    public function complete(string $code, int $cursor): array
    {
        $before = mb_substr($code, 0, $cursor, 'UTF-8');
        [$start, $matches] = $this->matches($before);
        usort($matches, static fn ($a, $b) => self::isPrivate($a[0]) <=> self::isPrivate($b[0]) ?: strnatcasecmp($a[0], $b[0]));
        $list = [];
        foreach ($matches as [$text, $type]) {
            if (mb_check_encoding($text, 'UTF-8')) {
                $list[$text] ??= ['text' => $text, 'type' => $type];
            }
        }
        return ['matches' => array_values(\array_slice($list, 0, self::MAX)), 'cursor_start' => mb_strlen(substr($before, 0, $start), 'UTF-8'), 'cursor_end' => $cursor];
    }

    private static function isPrivate(string $name): bool
    {
        return str_starts_with(ltrim($name, '$'), '_');
    }

    /**
     * @return array{int, list<array{string, string}>} where the word begins, in bytes, and its
     *   completions
     */
    private function matches(string $before): array
    {
        $name = self::NAME;
        $length = \strlen($before);
        // $value['key
        if (preg_match('/(\$' . $name . '(?:(?:->|\?->)' . $name . "|\[[^\]\[]*\])*)\[(['\"])([^'\"\]]*)$/", $before, $m)) {
            [$found, $value] = $this->value($m[1]);
            $keys = $found && \is_array($value) ? array_filter(array_keys($value), is_string(...)) : [];
            return [$length - \strlen($m[3]), $this->starting($keys, $m[3], 'key')];
        }
        // $value->member
        if (preg_match('/(\$' . $name . '(?:(?:->|\?->)' . $name . '|\[[^\]\[]*\])*)\??->(' . $name . ')?$/', $before, $m)) {
            [$found, $value] = $this->value($m[1]);
            return [$length - \strlen($m[2] ?? ''), $found && \is_object($value) ? $this->members($value, $m[2] ?? '') : []];
        }
        // Name::member
        if (preg_match('/(\$?\\\\?' . $name . '(?:\\\\' . $name . ')*)::(\$?(?:' . $name . ')?)$/', $before, $m)) {
            return [$length - \strlen($m[2]), $this->statics($m[1], $m[2])];
        }
        if (preg_match('/\$(' . $name . ')?$/', $before, $m)) {
            $names = array_diff(array_merge(array_map(strval(...), array_keys($GLOBALS)), ['this', 'GLOBALS']), ['__error']);
            preg_match_all('/\$(' . $name . ')/', substr($before, 0, $length - \strlen($m[0])), $here);
            return [$length - \strlen($m[0]), $this->starting(array_map(static fn ($n) => "\$$n", [...$names, ...$here[1]]), $m[0], 'variable')];
        }
        if (preg_match('/(\\\\?' . $name . '(?:\\\\' . $name . ')*\\\\?|\\\\)$/', $before, $m)) {
            return [$length - \strlen($m[1]), $this->names($m[1], (bool) preg_match('/\bnew\s+$/', substr($before, 0, $length - \strlen($m[1]))))];
        }
        return [$length, []];
    }

    private function starting(array $names, string $prefix, string $type): array
    {
        $found = [];
        foreach ($names as $name) {
            if (strncasecmp((string) $name, $prefix, \strlen($prefix)) === 0) {
                $found[] = [(string) $name, $type];
            }
        }
        return $found;
    }

    /**
     * Returns the value of a variable, its properties and elements: $a->b['c'][0]. Only stored
     * values are read.
     *
     * @return array{bool, mixed}
     */
    private function value(string $path): array
    {
        preg_match('/^\$(' . self::NAME . ')/', $path, $m);
        if (!\array_key_exists($m[1], $GLOBALS)) {
            return [false, null];
        }
        $value = $GLOBALS[$m[1]];
        preg_match_all('/\??->(' . self::NAME . ')|\[(?:([0-9]+)|[\'"]([^\'"]*)[\'"])\]|(\[)/', substr($path, \strlen($m[0])), $steps, PREG_SET_ORDER);
        foreach ($steps as $step) {
            if (($step[4] ?? '') !== '') {
                return [false, null]; // an index that would run code
            }
            if ($step[1] !== '') {
                $name = $step[1];
                $properties = \is_object($value) && !(new \ReflectionClass($value))->isUninitializedLazyObject($value) ? get_mangled_object_vars($value) : [];
                $key = array_find(array_keys($properties), static fn ($k) => $k === $name || str_ends_with((string) $k, "\0$name"));
                if ($key === null) {
                    return [false, null];
                }
                $value = $properties[$key];
            } else {
                $key = $step[3] ?? $step[2];
                if (!\is_array($value) || !\array_key_exists($key, $value)) {
                    return [false, null];
                }
                $value = $value[$key];
            }
        }
        return [true, $value];
    }

    private function members(object $value, string $prefix): array
    {
        $class = new \ReflectionClass($value);
        $found = [];
        foreach ($class->getMethods(\ReflectionMethod::IS_PUBLIC) as $method) {
            if (!$method->isConstructor() && !$method->isStatic()) {
                $found[] = [$method->getName(), 'method'];
            }
        }
        foreach ($class->getProperties(\ReflectionProperty::IS_PUBLIC) as $property) {
            if (!$property->isStatic()) {
                $found[] = [$property->getName(), 'property'];
            }
        }
        foreach ($class->isUninitializedLazyObject($value) ? [] : array_keys(get_mangled_object_vars($value)) as $name) {
            if ((string) $name !== '' && ((string) $name)[0] !== "\0") {
                $found[] = [(string) $name, 'property'];
            }
        }
        return array_values(array_filter($found, static fn ($f) => strncasecmp($f[0], $prefix, \strlen($prefix)) === 0));
    }

    private function statics(string $name, string $prefix): array
    {
        $class = $this->classOf($name);
        if ($class === null) {
            return [];
        }
        $found = [['class', 'keyword']];
        foreach ($class->getMethods() as $method) {
            if ($method->isStatic() && $method->isPublic()) {
                $found[] = [$method->getName(), 'method'];
            }
        }
        foreach ($class->getReflectionConstants() as $constant) {
            if ($constant->isPublic()) {
                $found[] = [$constant->getName(), $constant->isEnumCase() ? 'case' : 'constant'];
            }
        }
        foreach ($class->getProperties(\ReflectionProperty::IS_STATIC) as $property) {
            if ($property->isPublic()) {
                $found[] = ['$' . $property->getName(), 'property'];
            }
        }
        return array_values(array_filter($found, static fn ($f) => strncasecmp($f[0], $prefix, \strlen($prefix)) === 0));
    }

    /**
     * Returns the class of a name, as a cell would resolve it, or of a variable; null if it is not
     * loaded.
     */
    private function classOf(string $name): ?\ReflectionClass
    {
        if ($name[0] === '$') {
            [, $value] = $this->value($name);
            $name = \is_object($value) ? $value::class : (\is_string($value) ? $value : '');
        } elseif ($name[0] !== '\\') {
            $first = strstr("$name\\", '\\', true);
            foreach ($this->source->classImports() as $alias => $full) {
                if (strcasecmp($alias, $first) === 0) {
                    $name = $full . substr($name, \strlen($first));
                    break;
                }
            }
        }
        $name = ltrim($name, '\\');
        return $name !== '' && (class_exists($name, false) || interface_exists($name, false) || trait_exists($name, false)) ? new \ReflectionClass($name) : null;
    }

    private function names(string $prefix, bool $classes): array
    {
        $bare = ltrim($prefix, '\\');
        $root = $prefix !== $bare ? '\\' : '';
        $found = [];
        foreach ([...get_declared_classes(), ...get_declared_interfaces(), ...get_declared_traits()] as $name) {
            $found[] = [$name, 'class'];
        }
        foreach ($root === '' ? array_keys($this->source->classImports()) : [] as $name) {
            $found[] = [$name, 'class'];
        }
        if (!$classes) {
            $functions = get_defined_functions();
            foreach ([...$functions['internal'], ...$functions['user'], ...($root === '' ? self::HELPERS : [])] as $name) {
                $found[] = [$name, 'function'];
            }
            foreach (get_defined_constants() as $name => $_) {
                $found[] = [$name, 'constant'];
            }
            foreach ($root === '' ? self::KEYWORDS : [] as $name) {
                $found[] = [$name, 'keyword'];
            }
        }
        $matches = [];
        foreach ($found as [$name, $type]) {
            if (strncasecmp($name, $bare, \strlen($bare)) === 0 && !str_starts_with($name, 'Sandgate\\') && !str_starts_with($name, 'sandgate\\') && !str_contains($name, "\0")) {
                $matches[] = [$root . $name, $type];
            }
        }
        return $matches;
    }

    public function inspect(string $code, int $cursor, int $detail): array
    {
        $name = self::NAME;
        $before = mb_substr($code, 0, $cursor, 'UTF-8');
        $after = mb_substr($code, $cursor, null, 'UTF-8');
        preg_match('/^[A-Za-z0-9_\x80-\xff]*/', $after, $rest);
        preg_match('/(?:\$?\\\\?' . $name . '(?:\\\\' . $name . ')*|\$)(?:(?:\?->|->|::)\$?(?:' . $name . ')?|\[[^\]\[]*\])*$/', $before . $rest[0], $m)
            || preg_match('/(\$?' . $name . '(?:\\\\' . $name . ')*)\s*\([^()]*$/', $before, $m); // inside of a call's brackets
        $text = $m ? $this->describe($m[1] ?? $m[0], $detail) : null;
        return $text === null ? ['found' => false] : ['found' => true, 'data' => ['text/plain' => $text]];
    }

    private function describe(string $word, int $detail): ?string
    {
        if (preg_match('/^(.+?)(->|\?->|::)(\$?' . self::NAME . ')$/s', $word, $m) && preg_match('/^.*(?=(?:->|\?->|::)\$?' . self::NAME . '$)/s', $word, $owner)) {
            $member = substr(strrchr(strtr($word, ['?->' => "\1", '->' => "\1", '::' => "\1"]), "\1"), 1);
            $owner = $owner[0];
            $class = str_contains($word, '::') && !str_contains($owner, '->') ? $this->classOf($owner) : null;
            if ($class === null && $owner[0] === '$') {
                [$found, $value] = $this->value($owner);
                $class = $found && \is_object($value) ? new \ReflectionObject($value) : null;
            }
            if ($class?->hasMethod($member)) {
                return $this->function($class->getMethod($member), $detail);
            }
            if ($class !== null && $class->hasConstant($member)) {
                return $class->getName() . "::$member = " . Dump::text($class->getConstant($member), 10_000);
            }
            if ($class?->hasProperty(ltrim($member, '$'))) {
                $property = $class->getProperty(ltrim($member, '$'));
                [$found, $value] = $this->value($word);
                return implode(' ', \Reflection::getModifierNames($property->getModifiers())) . ($property->hasType() ? ' ' . $property->getType() : '')
                    . ' $' . $property->getName() . ($found ? ' = ' . Dump::text($value, 10_000) : '') . $this->comment($property->getDocComment());
            }
        }
        if ($word[0] === '$') {
            [$found, $value] = $this->value($word);
            if (!$found) {
                return null;
            }
            $text = "$word: " . Variables::type($value) . "\n" . Dump::text($value, 10_000);
            return \is_object($value) && !$value instanceof \Closure ? "$text\n\n" . $this->class(new \ReflectionObject($value)) : $text;
        }
        $function = ltrim($word, '\\');
        $function = \in_array($function, self::HELPERS, true) && !\function_exists($function) ? "Sandgate\\$function" : $function;
        if (\function_exists($function)) {
            return $this->function(new \ReflectionFunction($function), $detail);
        }
        if (($class = $this->classOf($word)) !== null) {
            return $this->class($class);
        }
        $name = ltrim($word, '\\');
        return \defined($name) ? "$name = " . Dump::text(\constant($name), 10_000) : null;
    }

    private function function(\ReflectionFunctionAbstract $f, int $detail): string
    {
        $text = preg_replace('/function Sandgate\\\\/', 'function ', Signature::of($f)) . $this->comment($f->getDocComment());
        if ($f->isInternal()) {
            return $text . ($f->getExtensionName() ? "\n\nof the extension " . $f->getExtensionName() : '');
        }
        $file = (string) $f->getFileName();
        $text .= $f->getNamespaceName() === 'Sandgate' ? '' : "\n\nin " . Errors::place($file, (int) $f->getStartLine());
        if ($detail > 0 && str_starts_with($file, Cells::SCHEME)) {
            for ($i = $f->getStartLine(); $i <= $f->getEndLine(); $i++) {
                $text .= "\n" . Cells::line($file, $i);
            }
        }
        return $text;
    }

    private function class(\ReflectionClass $class): string
    {
        $text = Signature::ofClass($class) . $this->comment($class->getDocComment());
        $lines = [];
        foreach ($class->getReflectionConstants() as $constant) {
            if ($constant->isPublic()) {
                $lines[] = ($constant->isEnumCase() ? 'case ' : 'const ') . $constant->getName();
            }
        }
        foreach ($class->getProperties(\ReflectionProperty::IS_PUBLIC) as $property) {
            $lines[] = implode(' ', \Reflection::getModifierNames($property->getModifiers())) . ($property->hasType() ? ' ' . $property->getType() : '') . ' $' . $property->getName();
        }
        foreach ($class->getMethods(\ReflectionMethod::IS_PUBLIC) as $method) {
            $lines[] = Signature::of($method);
        }
        return $text . ($lines ? "\n\n  " . implode("\n  ", \array_slice($lines, 0, 200)) : '');
    }

    private function comment(string|false $comment): string
    {
        return $comment === false ? '' : "\n\n" . trim(preg_replace('~^[ \t]*(/\*\*|\*/|\* ?)|\s*\*/$~m', '', $comment));
    }
}
