<?php
namespace Sandgate;

/** Functions and classes as declarations. */
final class Signature
{
    public static function of(\ReflectionFunctionAbstract $f): string
    {
        $name = $f instanceof \ReflectionFunction && $f->isAnonymous() ? '' : $f->getName();
        $return = $f->getReturnType() ?? $f->getTentativeReturnType();
        $parameters = array_map(self::parameter(...), $f->getParameters());
        $text = ($f->returnsReference() ? '&' : '') . $name . '(' . implode(', ', $parameters) . ')' . ($return === null ? '' : ": $return");
        if (!$f instanceof \ReflectionMethod) {
            return "function $text";
        }
        return implode(' ', \Reflection::getModifierNames($f->getModifiers())) . " function $text";
    }

    public static function ofClosure(\Closure $closure): string
    {
        $f = new \ReflectionFunction($closure);
        return 'Closure' . preg_replace('/^function ?(?=\()/', '', preg_replace('/^function (?=[^(])/', ' ', self::of($f)));
    }

    private static function parameter(\ReflectionParameter $p): string
    {
        $text = ($p->hasType() ? $p->getType() . ' ' : '') . ($p->isPassedByReference() ? '&' : '') . ($p->isVariadic() ? '...' : '') . '$' . $p->getName();
        if ($p->isDefaultValueAvailable()) {
            $text .= ' = ' . (self::constant($p) ?? Dump::line($p->getDefaultValue(), 60));
        }
        return $text;
    }

    private static function constant(\ReflectionParameter $p): ?string
    {
        try {
            return $p->isDefaultValueConstant() ? $p->getDefaultValueConstantName() : null;
        } catch (\Throwable) {
            return '…';
        }
    }

    /** Returns a class's declaration line. */
    public static function ofClass(\ReflectionClass $c): string
    {
        $kind = match (true) {
            $c->isEnum() => 'enum', $c->isInterface() => 'interface', $c->isTrait() => 'trait', default => 'class',
        };
        $modifiers = $kind === 'class' ? ($c->isAbstract() ? 'abstract ' : '') . ($c->isFinal() ? 'final ' : '') . ($c->isReadOnly() ? 'readonly ' : '') : '';
        $parent = $c->getParentClass();
        $interfaces = array_diff($c->getInterfaceNames(), $parent ? $parent->getInterfaceNames() : []);
        return "$modifiers$kind " . $c->getName() . ($parent ? ' extends ' . $parent->getName() : '')
            . ($interfaces ? ($kind === 'interface' ? ' extends ' : ' implements ') . implode(', ', $interfaces) : '');
    }
}
