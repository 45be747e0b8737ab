"""Encoder models (ONNX Runtime, PyTorch) behind one interface: token vectors of texts."""
