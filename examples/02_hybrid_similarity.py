"""02 - The paper's loss on a batch of its network's descriptors, and what its gradient does to them.

Usage: python examples/02_hybrid_similarity.py      needs torch: pip install 'hynet-features[train]'
"""

import torch

import hynet
from hynet.datasets import synthetic

torch.manual_seed(0)
patch_set = synthetic.patch_set(points=64, patches_per_point=2, seed=0)
patches = torch.from_numpy(patch_set.patches[:, ::2, ::2].copy())[:, None].float()  # (128, 1, 32, 32), 0 to 255

network = hynet.descriptors.HyNet()
raw_a, raw_p = network(patches[0::2]), network(patches[1::2])  # (64, 128) each, not yet of unit length
loss = hynet.losses.hynet(raw_a, raw_p, z=hynet.similarity.unit_slope(2.0), margin=0.44)

print({name: round(term.item(), 4) for name, term in loss.terms.items()}, f"violated: {loss.violated:.0%}")

# s and d only turn a descriptor; the norm regulariser is what changes its length.
gradient = torch.autograd.grad(loss.terms["triplet"], raw_a)[0]
along, across = hynet.similarity.decompose(gradient, raw_a)
print(f"gradient along the descriptors {along.norm():.1e}, across them {across.norm():.1e}")
