<?php
/**
 * Loads the classes of Debian's PHP libraries at their first use. Every PHP program begins with this
 * file. `require 'vendor/autoload.php'` also finds it, by the include path, if the working folder
 * has no packages of Composer. Then it loads the functions of libraries too.
 */
if (spl_autoload_functions() !== []) {
    require_once dirname(__DIR__) . '/Illuminate/Collections/autoload.php';
    return;
}
spl_autoload_register(static function (string $class): void {
    // Each library has a file in the folder of its namespace, which registers the library's own
    // function. PHP calls that one next.
    $name = $class;
    while (($end = strrpos($name, '\\')) !== false) {
        $name = substr($name, 0, $end);
        $folder = $name === 'Illuminate\Support' ? 'Illuminate/Collections' : strtr($name, '\\', '/');
        foreach (['autoload.php', 'Autoload.php'] as $file) {
            if (is_file($path = dirname(__DIR__) . "/$folder/$file")) {
                require_once $path;
                return;
            }
        }
    }
});
