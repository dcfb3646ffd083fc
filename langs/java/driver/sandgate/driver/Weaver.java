package sandgate.driver;

import static java.lang.constant.ConstantDescs.CD_Object;
import static java.lang.constant.ConstantDescs.CD_int;
import static java.lang.constant.ConstantDescs.CD_void;

import java.lang.classfile.Attributes;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeModel;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.Label;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.attribute.SourceFileAttribute;
import java.lang.classfile.constantpool.ClassEntry;
import java.lang.classfile.instruction.BranchInstruction;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.LabelTarget;
import java.lang.classfile.instruction.LineNumber;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDesc;
import java.lang.constant.DirectMethodHandleDesc;
import java.lang.constant.DynamicCallSiteDesc;
import java.lang.constant.MethodHandleDesc;
import java.lang.constant.MethodTypeDesc;
import java.util.HashSet;
import java.util.Set;

/**
 * Changes the bytecode of user classes: it adds a check at the beginning of each method that calls
 * others and before each backward branch, replaces calls of a few JDK methods by those of {@link
 * Hooks}, and maps lines to those of the cell.
 */
final class Weaver {
    private static final ClassDesc HOOKS = ClassDesc.of(Hooks.class.getName());
    private static final ClassDesc RUNTIME = ClassDesc.of("java.lang.Runtime");
    private static final ClassDesc BUILDER = ClassDesc.of("java.lang.ProcessBuilder");
    private static final ClassDesc PROCESS = ClassDesc.of("java.lang.Process");
    private static final ClassDesc THREAD = ClassDesc.of("java.lang.Thread");
    private static final MethodTypeDesc NOTHING = MethodTypeDesc.of(CD_void);
    private static final MethodTypeDesc STATUS = MethodTypeDesc.of(CD_void, CD_int);
    private static final ClassFile PARSER = ClassFile.of(ClassFile.StackMapsOption.DROP_STACK_MAPS);

    /** Maps lines of a class to lines of a file. */
    interface Lines {
        /** The file's name in stack traces. */
        String file();

        /** The line in the file, or 0 for a line that is not the user's. */
        int line(int generated);
    }

    private Weaver() {}

    /** Weaves a class. lines may be null: then the class keeps its own. */
    static byte[] weave(byte[] bytes, Lines lines) {
        ClassModel model = PARSER.parse(bytes);
        for (var entry : model.constantPool()) {
            if (entry instanceof ClassEntry c && c.name().equalsString("java/lang/foreign/Linker")) Hooks.nativeCode();
        }
        return PARSER.transformClass(model, (b, e) -> {
            switch (e) {
                case MethodModel m -> b.transformMethod(m, (mb, me) -> {
                    if (me instanceof CodeModel code) mb.transformCode(code, new Body(code, lines));
                    else mb.with(me);
                });
                case SourceFileAttribute a when lines != null -> b.with(SourceFileAttribute.of(lines.file()));
                default -> b.with(e);
            }
        });
    }

    private static final class Body implements CodeTransform {
        private final CodeModel code;
        private final Lines lines;
        private final Set<Label> passed = new HashSet<>();

        Body(CodeModel code, Lines lines) {
            this.code = code;
            this.lines = lines;
        }

        @Override public void atStart(CodeBuilder b) {
            for (CodeElement e : code) {
                if (e instanceof InvokeInstruction i && !i.name().equalsString("<init>") || e instanceof InvokeDynamicInstruction) {
                    check(b);
                    return;
                }
            }
        }

        @Override public void atEnd(CodeBuilder b) {
            // The frames do not change: no woven code changes the stack or the locals.
            code.findAttribute(Attributes.stackMapTable()).ifPresent(b::with);
        }

        @Override public void accept(CodeBuilder b, CodeElement e) {
            switch (e) {
                case LabelTarget t -> {
                    passed.add(t.label());
                    b.with(t);
                }
                case BranchInstruction branch -> {
                    if (passed.contains(branch.target())) check(b);
                    b.with(branch);
                }
                case LineNumber n when lines != null -> {
                    int line = lines.line(n.line());
                    if (line > 0) b.with(LineNumber.of(line));
                }
                case InvokeInstruction i -> {
                    if (!replace(b, i)) b.with(i);
                }
                case InvokeDynamicInstruction i -> dynamic(b, i);
                default -> b.with(e);
            }
        }

        private static void check(CodeBuilder b) {
            b.invokestatic(HOOKS, "check", NOTHING);
        }

        private static boolean replace(CodeBuilder b, InvokeInstruction i) {
            String owner = i.owner().asInternalName();
            String name = i.name().stringValue();
            String type = i.type().stringValue();
            trace(b, i, owner, name + type);
            if (!owner.startsWith("java/")) return false;
            switch (owner + "." + name) {
                case "java/lang/System.exit" -> b.invokestatic(HOOKS, "exit", STATUS);
                case "java/lang/Runtime.exit", "java/lang/Runtime.halt" ->
                    b.invokestatic(HOOKS, "exit", MethodTypeDesc.of(CD_void, RUNTIME, CD_int));
                case "java/lang/ProcessBuilder.start" -> b.invokestatic(HOOKS, "start", MethodTypeDesc.of(PROCESS, BUILDER));
                case "java/lang/IO.readln" -> {
                    if (i.typeSymbol().parameterCount() == 0) return false;
                    b.invokestatic(HOOKS, "readln", i.typeSymbol());
                }
                case "java/lang/Runtime.addShutdownHook" ->
                    b.invokestatic(HOOKS, "addShutdownHook", MethodTypeDesc.of(CD_void, RUNTIME, THREAD));
                default -> {
                    return false;
                }
            }
            return true;
        }

        /** Before a call that uses the trace of an exception, the driver's frames are removed. */
        private static void trace(CodeBuilder b, InvokeInstruction i, String owner, String method) {
            if (i.opcode() != Opcode.INVOKEVIRTUAL) return;
            switch (method) {
                case "printStackTrace()V", "getStackTrace()[Ljava/lang/StackTraceElement;" -> b.dup();
                case "printStackTrace(Ljava/io/PrintStream;)V", "printStackTrace(Ljava/io/PrintWriter;)V" -> b.dup2().pop();
                default -> {
                    if (!owner.equals("java/util/logging/Logger") || !method.endsWith("Ljava/lang/Throwable;)V")) return;
                    b.dup();
                }
            }
            b.invokestatic(HOOKS, "clean", MethodTypeDesc.of(CD_void, CD_Object));
        }

        /** Method references to replaced methods: System::exit. */
        private static void dynamic(CodeBuilder b, InvokeDynamicInstruction i) {
            var args = i.bootstrapArgs().toArray(new ConstantDesc[0]);
            boolean changed = false;
            for (int n = 0; n < args.length; n++) {
                if (args[n] instanceof DirectMethodHandleDesc h && h.methodName().equals("exit")
                    && h.owner().descriptorString().equals("Ljava/lang/System;")) {
                    args[n] = MethodHandleDesc.ofMethod(DirectMethodHandleDesc.Kind.STATIC, HOOKS, "exit", STATUS);
                    changed = true;
                }
            }
            if (changed) {
                b.invokedynamic(DynamicCallSiteDesc.of(i.bootstrapMethod(), i.name().stringValue(), i.typeSymbol(), args));
            } else {
                b.with(i);
            }
        }
    }
}
