# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs the samples of the documents in one language: run.py <language> <build> <work> [<tool>]

A sample is a block ```language of README.md, docs/*.md or bindings/*/README.md. The frame <document>-<language>-<n>.in
beside this file makes it a program, which must compile without warnings, run on a server of its own and exit with 0:
@head@ stands for the lines that #include or use, @sample@ for the others, @sample 1@ and @sample rest@ for the first
paragraph and for those behind it. A sample without a frame fails, and so does a frame without a sample.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
DOCUMENTS = [
    CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md")), *sorted((CHECKOUT / "bindings").glob("*/README.md"))
]  # fmt: skip
SUFFIX = {"c": ".c", "cpp": ".cpp", "python": ".py", "go": ".go", "sh": ".sh"}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def samples(language):
    """The name of each sample's frame, and its lines."""
    for document in DOCUMENTS:
        name = str(document.relative_to(CHECKOUT).with_suffix("")).replace("/", "_")
        blocks = re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.M | re.S)
        for n, text in enumerate(blocks, 1):
            yield f"{name}-{language}-{n}", text


def program(frame, text, url):
    """The frame with the sample in it, which goes as far in as its marker."""
    is_head = re.compile(r"#include |using namespace ")
    lines = text.replace("redis://localhost", url).splitlines()
    head = [line for line in lines if is_head.match(line)]
    body = "\n".join(line for line in lines if not is_head.match(line)).strip("\n")
    first, _, rest = body.partition("\n\n")
    parts = {"head": "\n".join(head), "sample": body, "sample 1": first, "sample rest": rest}

    def put(found):
        return "".join(f"{found[1]}{line}\n" if line else "\n" for line in parts[found[2]].splitlines())

    return re.sub(r"^([ \t]*)@([a-z0-9 ]+)@\n", put, frame.read_text(), flags=re.M)


def start_server(work):
    socket = work / "s"
    server = subprocess.Popen(
        [os.environ["RLOCK_REDIS_SERVER"], "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(work)],
        stdout=subprocess.DEVNULL,
    )
    while not socket.exists():
        assert server.poll() is None, "the server does not start"
        time.sleep(0.002)
    return server, f"unix://{socket}"


class Runner:
    """How a program of each language is compiled and run: the command of the latter."""

    def __init__(self, build, work, tool):
        self.build, self.work, self.tool = build, work, tool
        self.path = [f"-I{CHECKOUT}/include", f"-I{build}/include"]
        self.link = [f"-L{build}", "-lrlock", f"-Wl,-rpath,{build}"]

    def c(self, source):
        return self.compiled(shlex.split(os.environ.get("CC", "cc")), ["-std=gnu11"], source)

    def cpp(self, source):
        return self.compiled(shlex.split(os.environ.get("CXX", "c++")), ["-std=c++17"], source)

    def compiled(self, compiler, flags, source):
        out = source.with_suffix("")
        subprocess.run([*compiler, *flags, *WARNINGS, *self.path, str(source), "-o", str(out), *self.link], check=True)
        return [str(out)]

    def python(self, source):
        return [self.tool, "-W", "error", str(source)]

    def sh(self, source):
        return ["bash", str(source)]

    def go(self, source):
        """Within a copy of the example, which finds the module beside it: the module's tests left what cgo needs."""
        module = self.work / "examples" / "go"
        if not module.exists():
            shutil.copytree(CHECKOUT / "examples" / "go", module)
            shutil.copytree(CHECKOUT / "bindings" / "go", self.work / "bindings" / "go")
        (module / "sample").mkdir(exist_ok=True)
        shutil.copy(source, module / "sample" / "main.go")
        out = source.with_suffix("")
        subprocess.run([self.tool, "build", "-o", str(out), "./sample"], cwd=module, check=True)
        return [str(out)]


def main(language, build, work, tool=""):
    build, work = pathlib.Path(build), pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    found = dict(samples(language))
    frames = {path.stem for path in HERE.glob(f"*-{language}-*.in")}
    problems = [f"{name}: this sample has no frame in tests/samples" for name in found if name not in frames]
    problems += [f"tests/samples/{name}.in: no document has this sample" for name in sorted(frames - set(found))]
    server, url = start_server(work)
    try:
        environment = {**os.environ, "RLOCK_URL": url, "PATH": f"{build}:{os.environ['PATH']}"}
        for name in sorted(frames & set(found)):
            source = work / (name + SUFFIX[language])
            source.write_text(program(HERE / f"{name}.in", found[name], url))
            try:
                command = getattr(Runner(build, work, tool), language)(source)
                subprocess.run(command, cwd=work, env=environment, check=True, timeout=120)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
                problems.append(f"{name}: {failed}")
    finally:
        server.kill()
        server.wait()
    print(f"{len(found)} samples", *problems, sep="\n")
    return 1 if problems or not found else 0


sys.exit(main(*sys.argv[1:]))
