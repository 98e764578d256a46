"""Normalisation over rows: RMSNorm, LayerNorm, residual add + RMSNorm."""

from kiln.kernels.norm.kernel import layer_norm, residual_rms_norm, rms_norm

__all__ = ["layer_norm", "residual_rms_norm", "rms_norm"]
