"""Parts of kernels in numba's hands. By itself numba optimises a function that others call and makes machine
code of it, before it optimises it once more inside each kernel; nobody calls a part, so a first run spares
the first of both, a quarter of its compilation.
"""

from __future__ import annotations

from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class PartLibrary(JITCodeLibrary):
    """Code that is only ever linked into a kernel's: it is finished as it is."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """Lowers a part into such a library; what stands for it in numba's tables has no code to call."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags = state.flags.copy()
        state.flags.no_compile = True
        library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        state.library = library
        super().run_pass(state)
        lowered = state["cr"]
        name = lowered.fndesc.qualname
        stub = make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (library,))
        state.targetctx.insert_user_function(stub, lowered.fndesc, [library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=stub, env=lowered.env)
        return True


class PartCompiler(CompilerBase):
    """numba's own passes, but for the lowering."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (PartLowering if each is NativeLowering else each, text) for each, text in passes.passes
        ]
        return [passes]
